/* SPDX-License-Identifier: Apache-2.0 */
/* config/sections.c: the tree of a file into a draft of a snapshot.
 *
 * For:       every key has one place where it is read, with its type, range and default.
 * Called by: config.c.
 * Knows not: YAML; what must hold between keys (check.c). */
#include "config/sections.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/section.h"
#include "config/table.h"
#include "config/values.h"

#define WORKERS_MAX 256
#define NAME_SERVERS_MAX 8

/* ---- Options: sections of numbers, read by their rows ---- */

static const char *const option_sections[] = {"limits", "timeouts", "health", "retry", "meter"};

static bool parse_option(const struct option *option, struct span text, int64_t *out_value)
{
    switch (option->type) {
    case OPTION_bytes:
        return values_bytes(text, out_value);
    case OPTION_duration:
        return values_duration(text, out_value);
    case OPTION_percent:
        return values_percent(text, out_value);
    case OPTION_number:
        break;
    }
    return span_to_int64(text, out_value);
}

static void read_option(struct draft *draft, const struct option *option, const struct node *node,
                        const struct place *place)
{
    static const char *const examples[] = {[OPTION_number] = "",
                                           [OPTION_bytes] = " (such as 64KiB)",
                                           [OPTION_duration] = " (such as 150ms or 2m)",
                                           [OPTION_percent] = " (such as 20%)"};
    char minimum[32];
    char maximum[32];
    char expected[160];
    int64_t value;

    if (!section_is_kind(draft, node, NODE_TEXT, place))
        return;
    if (parse_option(option, node->text, &value) && value >= option->minimum &&
        value <= option->maximum) {
        memcpy((char *)draft->config + option->offset, &value, sizeof(value));
        return;
    }
    table_print_value(option, option->minimum, minimum, sizeof(minimum));
    table_print_value(option, option->maximum, maximum, sizeof(maximum));
    (void)snprintf(expected, sizeof(expected), "a %s from %s to %s%s",
                   table_type_name(option->type), minimum, maximum, examples[option->type]);
    section_refuse(draft, node, place, expected);
}

static void read_options(const struct section *root)
{
    size_t count;
    const struct option *options = table_options(&count);

    for (size_t i = 0; i < count; i++)
        memcpy((char *)root->draft->config + options[i].offset, &options[i].fallback,
               sizeof(options[i].fallback));
    for (size_t s = 0; s < sizeof(option_sections) / sizeof(option_sections[0]); s++) {
        struct place place;
        const struct node *node = section_find(root, option_sections[s], &place);
        struct section section;

        if (node == NULL)
            continue;
        if (s == 0)
            root->draft->limits_line = place.line;
        section = section_open(root->draft, node, place, option_sections[s]);
        for (uint32_t k = 0; section.map != NULL && k < node->count; k++) {
            const struct node_pair *pair = &node->pairs[k];
            const struct place key = section_place(&section.place, pair->key, pair->line);

            for (size_t i = 0; i < count; i++)
                if (table_option_is(&options[i], span_of(option_sections[s]), pair->key))
                    read_option(root->draft, &options[i], pair->value, &key);
        }
    }
}

/* ---- The process: listeners, name, workers, logs ---- */

static void read_address(const struct section *section, struct config_listen *out_listen)
{
    struct place place;
    const struct node *node = section_need(section, "address", &place);
    struct span text;

    if (node == NULL ||
        !section_read_text(section->draft, node, &place, TEXT_WORD, NAME_BYTES_MAX, &text))
        return;
    if (!values_listen(text, out_listen))
        section_refuse(section->draft, node, &place,
                       "an IP address and a port, such as 127.0.0.1:4000 or [::1]:4000, or a Unix "
                       "socket, such as unix:/run/tollgate.sock");
}

static void read_listener(const struct section *section, struct config_listen *out_listen)
{
    int64_t mode = 0660;

    read_address(section, out_listen);
    section_value_at(section, "mode", values_mode, "permissions such as 0660", &mode);
    out_listen->mode = (uint32_t)mode;
    out_listen->tls_present = sections_read_tls(section, "listen[].tls", &out_listen->tls);
    if (out_listen->tls_present && out_listen->tls.certificate.data == NULL)
        problems_add_at(section->draft->problems, out_listen->tls.line, out_listen->tls.place.data,
                        "expected a certificate");
}

static void read_listen(const struct section *root)
{
    struct draft *draft = root->draft;
    struct place place;
    const struct node *list = section_find_list(root, "listen", 1, 64, &place);

    if (list == NULL)
        return;
    draft->config->listen = section_take(draft, list->count, sizeof(*draft->config->listen));
    if (draft->config->listen == NULL)
        return;
    draft->config->listen_count = list->count;
    draft->listen_line = place.line;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        const struct section section = section_open(draft, list->items[i], item, "listen[]");

        read_listener(&section, &draft->config->listen[i]);
    }
}

static void read_admin(const struct section *root)
{
    struct place place;
    const struct node *node = section_find(root, "admin", &place);
    struct section section;

    if (node == NULL)
        return;
    section = section_open(root->draft, node, place, "admin");
    root->draft->config->admin_present = true;
    root->draft->admin_line = place.line;
    read_address(&section, &root->draft->config->admin);
    root->draft->config->admin.mode = 0660;
    section_text_at(&section, "token", TEXT_SECRET, 256, &root->draft->config->admin_token);
}

static bool is_gateway_name(struct span name)
{
    for (size_t i = 0; i < name.size; i++) {
        const char byte = name.data[i];

        if (!((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
              (byte >= '0' && byte <= '9') || (i > 0 && strchr("._-", byte) != NULL)))
            return false;
    }
    return name.size >= 1 && name.size <= 64;
}

static void read_gateway(const struct section *root)
{
    struct place place;
    const struct node *node = section_find(root, "gateway", &place);
    struct span name = SPAN("gateway"); /* for a host whose name cannot be a file's */
    char host[65] = "";

    if (node != NULL) {
        if (!section_is_kind(root->draft, node, NODE_TEXT, &place))
            return;
        name = node->text;
        if (!is_gateway_name(name))
            section_refuse(root->draft, node, &place,
                           "1 to 64 letters, digits, dots, dashes or underscores");
    } else if (gethostname(host, sizeof(host) - 1) == 0 && is_gateway_name(span_of(host))) {
        name = span_of(host);
    }
    root->draft->config->gateway = section_keep(root->draft, name);
}

static uint32_t usable_cpus(void)
{
    cpu_set_t set;
    int count = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        count = CPU_COUNT(&set);
    return count > WORKERS_MAX ? WORKERS_MAX : (uint32_t)count;
}

static void read_workers(const struct section *root)
{
    struct place place;
    const struct node *node = section_find(root, "workers", &place);
    int64_t workers = usable_cpus();

    if (node == NULL || node->kind != NODE_TEXT || !span_equal(node->text, SPAN("auto")))
        section_number_at(root, "workers", 1, WORKERS_MAX, &workers);
    root->draft->config->workers = (uint32_t)workers;
}

static void read_cors(const struct section *root)
{
    struct draft *draft = root->draft;
    struct place place;
    const struct node *node = section_find(root, "cors", &place);
    const struct node *list;
    struct section section;
    struct place origins;

    if (node == NULL)
        return;
    section = section_open(draft, node, place, "cors");
    list = section_find_list(&section, "origins", 1, 256, &origins);
    if (list == NULL)
        return;
    draft->config->cors_origins = section_take(draft, list->count, sizeof(struct span));
    if (draft->config->cors_origins == NULL)
        return;
    draft->config->cors_origin_count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&origins, i, list->items[i]->line);
        struct span *origin = &draft->config->cors_origins[i];

        if (!section_read_text(draft, list->items[i], &item, TEXT_WORD, TEXT_BYTES_MAX, origin))
            continue;
        if (!span_equal(*origin, SPAN("*")) &&
            (memmem(origin->data, origin->size, "://", 3) == NULL ||
             origin->data[origin->size - 1] == '/'))
            section_refuse(draft, list->items[i], &item,
                           "* or an origin without a path, such as https://app.example");
    }
}

static void read_log(const struct section *root)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    struct config *config = root->draft->config;
    struct place place;
    const struct node *node = section_find(root, "log", &place);
    struct section section;

    config->log_access = SPAN("stdout");
    config->log_level = LOG_INFO;
    if (node == NULL)
        return;
    section = section_open(root->draft, node, place, "log");
    section_text_at(&section, "access", TEXT_ANY, TEXT_BYTES_MAX, &config->log_access);
    node = section_find(&section, "level", &place);
    if (node != NULL) {
        const int level =
            section_read_choice(root->draft, node, &place, levels, 4, "debug, info, warn or error");

        if (level >= 0)
            config->log_level = level;
    }
}

/* sqlite:PATH */
static void read_ledger(const struct section *section)
{
    static const struct span scheme = {"sqlite:", 7};
    struct config *config = section->draft->config;
    struct place place;
    struct span text = {NULL, 0};

    section_text_at(section, "ledger", TEXT_ANY, TEXT_BYTES_MAX, &text);
    if (text.data == NULL)
        return;
    (void)section_find(section, "ledger", &place);
    config->ledger_line = place.line;
    if (span_starts(text, scheme) && text.size > scheme.size) {
        config->ledger = section_keep(section->draft, span_from(text, scheme.size));
        return;
    }
    problems_add(section->draft->problems, &place, "expected sqlite: and a path");
}

static void read_anchor(const struct section *section)
{
    struct config *config = section->draft->config;
    struct place place;
    const struct node *node = section_find(section, "anchor", &place);
    struct section anchor;

    if (node == NULL)
        return;
    anchor = section_open(section->draft, node, place, "meter.anchor");
    section_text_at(&anchor, "file", TEXT_ANY, TEXT_BYTES_MAX, &config->anchor_file);
    section_text_at(&anchor, "command", TEXT_ANY, TEXT_BYTES_MAX, &config->anchor_command);
}

static bool read_opex(struct span text, int64_t *out_ppm)
{
    return values_decimal(text, 6, out_ppm) && *out_ppm <= INT64_C(1000) * PRICE_PPM;
}

static void read_meter(const struct section *root)
{
    static const char *const durabilities[] = {"process", "power"};
    struct config *config = root->draft->config;
    struct place above;
    struct place place;
    const struct node *node = section_find(root, "meter", &above);
    struct section section;

    config->opex_ppm = PRICE_PPM;
    if (node == NULL || node->kind != NODE_MAP)
        return; /* read_options() has opened it, and said what is wrong */
    section = (struct section){root->draft, node, above};
    section_text_at(&section, "journal", TEXT_ANY, TEXT_BYTES_MAX, &config->journal);
    if (section_find(&section, "journal", &place) != NULL)
        config->journal_line = place.line;
    read_ledger(&section);
    node = section_find(&section, "durability", &place);
    if (node != NULL)
        config->durable = section_read_choice(root->draft, node, &place, durabilities, 2,
                                              "process or power") == 1;
    section_text_at(&section, "signing_key", TEXT_ANY, TEXT_BYTES_MAX, &config->signing_key);
    if (section_find(&section, "signing_key", &place) != NULL)
        config->signing_key_line = place.line;
    read_anchor(&section);
    section_value_at(&section, "opex_factor", read_opex, "a factor as decimal text, such as 1.25",
                     &config->opex_ppm);
    if (config->journal.data == NULL && (config->ledger.data != NULL || config->durable))
        problems_add(root->draft->problems, &above,
                     "expected a journal: ledger and durability are about it");
}

static void read_names(const struct section *root)
{
    struct draft *draft = root->draft;
    struct config *config = draft->config;
    struct place place;
    const struct node *node = section_find(root, "names", &place);
    const struct node *list;
    struct section section;
    struct place servers;

    if (node == NULL)
        return;
    section = section_open(draft, node, place, "names");
    list = section_find_list(&section, "servers", 1, NAME_SERVERS_MAX, &servers);
    if (list == NULL)
        return;
    config->names_servers = section_take(draft, list->count, sizeof(*config->names_servers));
    if (config->names_servers == NULL)
        return;
    config->names_server_count = list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&servers, i, list->items[i]->line);
        struct config_listen address;

        if (section_read_text(draft, list->items[i], &item, TEXT_WORD, NAME_BYTES_MAX,
                              &config->names_servers[i]) &&
            (!values_listen(config->names_servers[i], &address) || address.port == 0))
            section_refuse(draft, list->items[i], &item,
                           "an IP address and a port, such as 10.0.0.53:53");
    }
}

void sections_read(struct draft *draft, const struct node *root)
{
    const struct place top = {.name = SPAN(""), .line = 1};
    const struct section section = section_open(draft, root, top, "");

    read_options(&section);
    read_listen(&section);
    read_admin(&section);
    read_gateway(&section);
    read_workers(&section);
    read_cors(&section);
    read_log(&section);
    read_meter(&section);
    read_names(&section);
    sections_read_models(&section);
    sections_read_classes(&section);
    sections_read_tenants(&section);
}
