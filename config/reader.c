/* SPDX-License-Identifier: Apache-2.0 */
/* config/reader.c: YAML text into a tree of keys, lists and texts (libyaml).
 *
 * For:       sections.c, which knows what the keys mean.
 * Called by: config.c.
 * Knows not: any key, any type but text, list and map. */
#include "config/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

/* A document being turned into nodes: node i of ours is node i + 1 of libyaml's. */
struct conversion {
    struct arena *arena;
    struct problem_list *problems;
    yaml_document_t *document;
    struct node *nodes;
};

static bool is_name_byte(char byte, bool first)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte == '_' ||
           (!first && byte >= '0' && byte <= '9');
}

/* The name in "${NAME}…"; {NULL, 0} when text does not begin with one. */
static struct span variable_name(struct span text)
{
    size_t size = 0;

    if (!span_starts(text, SPAN("${")))
        return (struct span){NULL, 0};
    text = span_from(text, 2);
    while (size < text.size && is_name_byte(text.data[size], size == 0))
        size++;
    if (size == 0 || size == text.size || text.data[size] != '}')
        return (struct span){NULL, 0};
    return (struct span){text.data, size};
}

/* The environment's text for a name; NULL when there is none. */
static const char *environment(struct span name)
{
    char text[128];

    if (name.size >= sizeof(text))
        return NULL;
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    return getenv(text);
}

static void report_missing(struct conversion *conversion, struct node *node, struct span name)
{
    char key[140];

    (void)snprintf(key, sizeof(key), "${%.*s}", (int)name.size, name.data);
    problems_add_at(conversion->problems, node->line, key,
                    "expected a variable of this name in the environment");
    node->broken = true;
}

/* Replaces each ${NAME}. Reports the missing ones and marks the node as broken. */
static enum err replace_variables(struct conversion *conversion, struct node *node)
{
    enum err err = OK;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return ERR_NO_MEMORY;
    for (size_t at = 0; at < node->text.size;) {
        const struct span name = variable_name(span_from(node->text, at));
        const char *value;

        if (name.data == NULL) {
            (void)fputc(node->text.data[at++], out);
            continue;
        }
        at += name.size + sizeof("${}") - 1;
        node->from_environment = true;
        value = environment(name);
        if (value != NULL) {
            (void)fputs(value, out);
            continue;
        }
        report_missing(conversion, node, name);
    }
    if (fclose(out) != 0)
        err = ERR_NO_MEMORY;
    if (err == OK && node->from_environment) {
        node->text = arena_copy(conversion->arena, (struct span){text, size});
        if (node->text.data == NULL)
            err = ERR_NO_MEMORY;
    }
    free(text);
    return err;
}

static enum err convert_text(struct conversion *conversion, const yaml_node_t *from,
                             struct node *node)
{
    node->kind = NODE_TEXT;
    node->text = arena_copy(conversion->arena, (struct span){(const char *)from->data.scalar.value,
                                                             from->data.scalar.length});
    if (node->text.data == NULL)
        return ERR_NO_MEMORY;
    if (memchr(node->text.data, '\0', node->text.size) != NULL) {
        problems_add_at(conversion->problems, node->line, "text", "expected no NUL byte in it");
        node->broken = true;
    }
    return replace_variables(conversion, node);
}

static enum err convert_list(struct conversion *conversion, const yaml_node_t *from,
                             struct node *node)
{
    const yaml_node_item_t *first = from->data.sequence.items.start;

    node->kind = NODE_LIST;
    node->count = (uint32_t)(from->data.sequence.items.top - first);
    node->items = arena_take(conversion->arena, node->count * sizeof(*node->items));
    if (node->items == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < node->count; i++)
        node->items[i] = &conversion->nodes[first[i] - 1];
    return OK;
}

static enum err convert_map(struct conversion *conversion, const yaml_node_t *from,
                            struct node *node)
{
    const yaml_node_pair_t *first = from->data.mapping.pairs.start;
    const uint32_t count = (uint32_t)(from->data.mapping.pairs.top - first);

    node->kind = NODE_MAP;
    node->pairs = arena_take(conversion->arena, count * sizeof(*node->pairs));
    if (node->pairs == NULL)
        return ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const yaml_node_t *key = yaml_document_get_node(conversion->document, first[i].key);
        const uint32_t line = (uint32_t)key->start_mark.line + 1;
        struct node_pair *pair = &node->pairs[node->count];

        if (key->type != YAML_SCALAR_NODE) {
            problems_add_at(conversion->problems, line, "key",
                            "expected a name, not a list or map");
            continue;
        }
        pair->key =
            arena_copy(conversion->arena, (struct span){(const char *)key->data.scalar.value,
                                                        key->data.scalar.length});
        pair->line = line;
        pair->value = &conversion->nodes[first[i].value - 1];
        if (pair->key.data == NULL)
            return ERR_NO_MEMORY;
        node->count++;
    }
    return OK;
}

/* Node by node, not from the root down: no file can make this recurse. */
static enum err convert(struct conversion *conversion)
{
    const size_t count =
        (size_t)(conversion->document->nodes.top - conversion->document->nodes.start);
    enum err err = OK;

    conversion->nodes = arena_take_zeroed(conversion->arena, count * sizeof(*conversion->nodes));
    if (conversion->nodes == NULL)
        return ERR_NO_MEMORY;
    for (size_t i = 0; i < count && err == OK; i++) {
        const yaml_node_t *from = &conversion->document->nodes.start[i];
        struct node *node = &conversion->nodes[i];

        node->line = (uint32_t)from->start_mark.line + 1;
        if (from->type == YAML_SCALAR_NODE)
            err = convert_text(conversion, from, node);
        else if (from->type == YAML_SEQUENCE_NODE)
            err = convert_list(conversion, from, node);
        else
            err = convert_map(conversion, from, node);
    }
    return err;
}

static enum err report_not_yaml(const yaml_parser_t *parser, struct problem_list *problems)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return ERR_NO_MEMORY;
    problems_add_at(problems, (uint32_t)parser->problem_mark.line + 1, "YAML", "%s",
                    parser->problem == NULL ? "cannot be read" : parser->problem);
    return ERR_BAD_VALUE;
}

enum err reader_parse(struct span text, struct arena *arena, struct problem_list *problems,
                      const struct node **out_root)
{
    struct conversion conversion = {.arena = arena, .problems = problems};
    yaml_parser_t parser;
    yaml_document_t document;
    yaml_document_t second;
    enum err err = OK;

    if (yaml_parser_initialize(&parser) != 1)
        return ERR_NO_MEMORY;
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.data, text.size);
    if (yaml_parser_load(&parser, &document) != 1) {
        err = report_not_yaml(&parser, problems);
        goto out_parser;
    }
    if (yaml_document_get_root_node(&document) == NULL) {
        problems_add_at(problems, 1, "file", "expected a configuration, but it is empty");
        err = ERR_BAD_VALUE;
        goto out_document;
    }
    conversion.document = &document;
    err = convert(&conversion);
    if (err != OK)
        goto out_document;
    if (yaml_parser_load(&parser, &second) != 1) {
        err = report_not_yaml(&parser, problems);
        goto out_document;
    }
    if (yaml_document_get_root_node(&second) != NULL) {
        problems_add_at(problems, (uint32_t)second.start_mark.line + 1, "---",
                        "expected one document in the file");
        err = ERR_BAD_VALUE;
    }
    yaml_document_delete(&second);
    if (err == OK)
        *out_root = &conversion.nodes[0];

out_document:
    yaml_document_delete(&document);
out_parser:
    yaml_parser_delete(&parser);
    return err;
}
