/* SPDX-License-Identifier: Apache-2.0 */
/* router/classify.c: task class by rule.
 *
 * For:       router_classify(): an ask in, a class of the snapshot out. Pure.
 * Called by: the gateway, through router.h.
 * Knows not: HTTP, JSON, which models there are. */
#include "router/router.h"

static const struct span task_class_header = {"x-task-class", sizeof("x-task-class") - 1};

static bool agrees(enum tristate wanted, bool is)
{
    return wanted == ANY || (wanted == YES) == is;
}

static bool pattern_agrees(struct span pattern, struct span text)
{
    return !pattern.data || (text.data && span_matches(text, pattern));
}

static struct span header_of(const struct router_ask *ask, struct span name)
{
    return ask->header ? ask->header(ask->header_owner, name) : (struct span){NULL, 0};
}

/* x-task-class means the class asked for, wherever it was said. *out_explicit: such a rule is one
 * of those that agreed. */
static bool headers_agree(const struct config_class *class, const struct router_ask *ask,
                          bool *out_explicit)
{
    *out_explicit = false;
    for (uint32_t i = 0; i < class->header_count; i++) {
        const struct config_header_match *match = &class->headers[i];
        bool is_task_class = span_equal(match->name, task_class_header);
        struct span value = is_task_class ? ask->class_asked : header_of(ask, match->name);
        if (!value.data || !span_matches(value, match->value))
            return false;
        *out_explicit |= is_task_class;
    }
    return true;
}

static bool class_matches(const struct config_class *class, const struct router_ask *ask,
                          bool *out_explicit)
{
    int64_t bytes = (int64_t)ask->body_bytes;

    return (class->endpoint == ENDPOINT_NONE || class->endpoint == ask->endpoint) &&
           agrees(class->tools, ask->tools) && agrees(class->images, ask->images) &&
           agrees(class->schema, ask->schema) &&
           (class->min_bytes < 0 || bytes >= class->min_bytes) &&
           (class->max_bytes < 0 || bytes <= class->max_bytes) &&
           pattern_agrees(class->model_asked, ask->model_asked) &&
           headers_agree(class, ask, out_explicit) &&
           pattern_agrees(class->system_prompt, ask->system_prompt);
}

/* Was the class asked for by the header, or in the body? */
static const char *explicit_why(const struct router_ask *ask)
{
    return header_of(ask, task_class_header).data ? "header" : "metadata";
}

const struct config_class *router_classify(const struct config *config,
                                           const struct router_ask *ask, const char **out_why)
{
    if (ask->class_asked.data) {
        for (uint32_t i = 0; i < config->class_count; i++) {
            if (span_equal(config->classes[i].name, ask->class_asked)) {
                *out_why = explicit_why(ask);
                return &config->classes[i];
            }
        }
    }
    for (uint32_t i = 0; i < config->class_count; i++) {
        bool explicitly = false;
        if (class_matches(&config->classes[i], ask, &explicitly)) {
            *out_why = explicitly ? explicit_why(ask) : "rule";
            return &config->classes[i];
        }
    }
    *out_why = "none";
    return NULL;
}
