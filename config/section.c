/* SPDX-License-Identifier: Apache-2.0 */
/* config/section.c: one map of the file, asked for values of a type.
 *
 * For:       sections.c: every absent, unknown, doubled or mistyped key is reported here, with its
 *            place.
 * Called by: sections.c.
 * Knows not: any key, any room of the gateway.
 *
 * Values of secret keys, and those that came from the environment, are never repeated. */
#include "config/section.h"

#include <inttypes.h>
#include <stdio.h>

#include "config/base/nearest.h"
#include "config/table.h"

struct place section_place(const struct place *above, struct span name, uint32_t line)
{
    return (struct place){.above = above, .name = name, .line = line};
}

struct place section_item_place(const struct place *above, uint32_t index, uint32_t line)
{
    return (struct place){.above = above, .index = index, .line = line};
}

/* ---- Memory of the snapshot ---- */

void *section_take(struct draft *draft, size_t count, size_t bytes)
{
    void *taken = arena_take_zeroed(draft->arena, count * bytes);

    if (taken == NULL)
        draft->out_of_memory = true;
    return taken;
}

struct span section_keep(struct draft *draft, struct span text)
{
    const struct span copy = arena_copy(draft->arena, text);

    if (copy.data == NULL)
        draft->out_of_memory = true;
    return copy;
}

/* Remembers a name for check.c. */
void section_mention(struct draft *draft, enum mention_what what, struct span name, uint32_t owner,
                     uint32_t position, const struct place *place)
{
    struct mention *added = section_take(draft, 1, sizeof(*added));
    char key[200];

    if (added == NULL)
        return;
    place_print(place, key, sizeof(key));
    *added = (struct mention){.what = what,
                              .name = name,
                              .owner = owner,
                              .position = position,
                              .line = place->line,
                              .key = section_keep(draft, span_of(key)).data};
    if (added->key == NULL)
        return;
    *draft->last_mention = added;
    draft->last_mention = &added->next;
}

/* ---- Nodes of the type that is wanted ---- */

static const char *kind_name(enum node_kind kind)
{
    static const char *const names[] = {
        [NODE_TEXT] = "a plain value", [NODE_MAP] = "a map", [NODE_LIST] = "a list"};

    return names[kind];
}

/* Is node of this kind? If not, and nobody has said so yet, says so. */
bool section_is_kind(struct draft *draft, const struct node *node, enum node_kind kind,
                     const struct place *place)
{
    if (node->broken)
        return false;
    if (node->kind == kind)
        return true;
    if (node->kind == NODE_TEXT && node->text.size == 0)
        problems_add(draft->problems, place, "expected %s, got nothing", kind_name(kind));
    else
        problems_add(draft->problems, place, "expected %s, got %s", kind_name(kind),
                     kind_name(node->kind));
    return false;
}

/* Says that a value is not what was expected, repeating it when it cannot be a secret. */
void section_refuse(struct draft *draft, const struct node *node, const struct place *place,
                    const char *expected)
{
    if (node->from_environment)
        problems_add(draft->problems, place, "expected %s", expected);
    else
        problems_add(draft->problems, place, "expected %s, got \"%.*s\"", expected,
                     (int)(node->text.size < 60 ? node->text.size : 60), node->text.data);
}

static void report_unknown(struct section *section, struct span rows, const struct node_pair *pair)
{
    const struct place place = section_place(&section->place, pair->key, pair->line);
    struct nearest nearest = nearest_to(pair->key);
    struct span known;

    for (size_t i = 0; (known = table_key_below(rows, i)).data != NULL; i++)
        (void)nearest_try(&nearest, known);
    problems_add(section->draft->problems, &place, "not known (nearest known key: %.*s)",
                 (int)nearest.name.size, nearest.name.data);
}

static bool is_known(struct span rows, struct span key)
{
    struct span known;

    for (size_t i = 0; (known = table_key_below(rows, i)).data != NULL; i++)
        if (span_equal(known, key))
            return true;
    return false;
}

static void refuse_duplicates(struct draft *draft, const struct node *map,
                              const struct place *above)
{
    for (uint32_t i = 1; i < map->count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (span_equal(map->pairs[i].key, map->pairs[k].key)) {
                const struct place place =
                    section_place(above, map->pairs[i].key, map->pairs[i].line);

                problems_add(draft->problems, &place, "expected once, stands in line %u already",
                             map->pairs[k].line);
                break;
            }
        }
    }
}

/* A map whose keys are names of the operator's choice. */
struct section section_open_names(struct draft *draft, const struct node *node, struct place place)
{
    struct section section = {.draft = draft, .place = place};

    if (section_is_kind(draft, node, NODE_MAP, &place)) {
        section.map = node;
        refuse_duplicates(draft, node, &place);
    }
    return section;
}

/* A map whose keys stand in the tables under rows. */
struct section section_open(struct draft *draft, const struct node *node, struct place place,
                            const char *rows)
{
    struct section section = section_open_names(draft, node, place);

    for (uint32_t i = 0; section.map != NULL && i < node->count; i++)
        if (!is_known(span_of(rows), node->pairs[i].key))
            report_unknown(&section, span_of(rows), &node->pairs[i]);
    return section;
}

/* The value of a key; NULL when absent. *out_place is where it stands (or should). */
const struct node *section_find(const struct section *section, const char *key,
                                struct place *out_place)
{
    const struct place *above = &section->place;

    *out_place = section_place(above, span_of(key), section->place.line);
    if (section->map == NULL)
        return NULL;
    for (uint32_t i = 0; i < section->map->count; i++) {
        const struct node_pair *pair = &section->map->pairs[i];

        if (span_equal(pair->key, span_of(key))) {
            out_place->line = pair->line;
            return pair->value;
        }
    }
    return NULL;
}

/* As section_find(), but its absence is a problem. */
const struct node *section_need(const struct section *section, const char *key,
                                struct place *out_place)
{
    const struct node *node = section_find(section, key, out_place);

    if (node == NULL && section->map != NULL)
        problems_add(section->draft->problems, out_place, "required, but not there");
    return node;
}

/* A list under a key; NULL when absent or none. With least > 0 it must be there. */
const struct node *section_find_list(const struct section *section, const char *key, uint32_t least,
                                     uint32_t most, struct place *out_place)
{
    const struct node *node =
        least > 0 ? section_need(section, key, out_place) : section_find(section, key, out_place);

    if (node == NULL || !section_is_kind(section->draft, node, NODE_LIST, out_place))
        return NULL;
    if (node->count < least || node->count > most) {
        problems_add(section->draft->problems, out_place, "expected %u to %u items, got %u", least,
                     most, node->count);
        return NULL;
    }
    return node;
}

/* ---- Values ---- */

bool section_is_text(struct span text, enum text_class class, size_t most)
{
    if (text.size < 1 || text.size > most)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        const unsigned char byte = (unsigned char)text.data[i];

        if (byte < 0x20 || byte == 0x7f)
            return false;
        if (class != TEXT_ANY && (byte == ' ' || byte > 0x7e))
            return false;
    }
    return true;
}

/* Reads a text into the snapshot; false (and said) when it is none. */
bool section_read_text(struct draft *draft, const struct node *node, const struct place *place,
                       enum text_class class, size_t most, struct span *out_text)
{
    if (!section_is_kind(draft, node, NODE_TEXT, place))
        return false;
    if (!section_is_text(node->text, class, most)) {
        problems_add(draft->problems, place, "expected 1 to %zu printable %s", most,
                     class == TEXT_ANY ? "characters" : "ASCII characters without spaces");
        return false;
    }
    *out_text = section_keep(draft, node->text);
    return out_text->data != NULL;
}

/* The text of an optional key; *out_text stays as it is without one. */
void section_text_at(const struct section *section, const char *key, enum text_class class,
                     size_t most, struct span *out_text)
{
    struct place place;
    const struct node *node = section_find(section, key, &place);

    if (node != NULL)
        (void)section_read_text(section->draft, node, &place, class, most, out_text);
}

/* The same for a key that must be there. */
bool section_need_text_at(const struct section *section, const char *key, enum text_class class,
                          size_t most, struct span *out_text)
{
    struct place place;
    const struct node *node = section_need(section, key, &place);

    return node != NULL && section_read_text(section->draft, node, &place, class, most, out_text);
}

/* A whole number in a range; *out_value stays as it is without one. */
void section_number_at(const struct section *section, const char *key, int64_t minimum,
                       int64_t maximum, int64_t *out_value)
{
    struct place place;
    const struct node *node = section_find(section, key, &place);
    int64_t value;
    char expected[80];

    if (node == NULL || !section_is_kind(section->draft, node, NODE_TEXT, &place))
        return;
    if (span_to_int64(node->text, &value) && value >= minimum && value <= maximum) {
        *out_value = value;
        return;
    }
    (void)snprintf(expected, sizeof(expected), "a whole number from %" PRId64 " to %" PRId64,
                   minimum, maximum);
    section_refuse(section->draft, node, &place, expected);
}

/* A value that one of values.h's readers understands. */
bool section_read_value(struct draft *draft, const struct node *node, const struct place *place,
                        bool (*reader)(struct span text, int64_t *out_value), const char *expected,
                        int64_t *out_value)
{
    if (!section_is_kind(draft, node, NODE_TEXT, place))
        return false;
    if (reader(node->text, out_value))
        return true;
    section_refuse(draft, node, place, expected);
    return false;
}

void section_value_at(const struct section *section, const char *key,
                      bool (*reader)(struct span text, int64_t *out_value), const char *expected,
                      int64_t *out_value)
{
    struct place place;
    const struct node *node = section_find(section, key, &place);

    if (node != NULL)
        (void)section_read_value(section->draft, node, &place, reader, expected, out_value);
}

/* One of several words; its index, or -1 (and said). */
int section_read_choice(struct draft *draft, const struct node *node, const struct place *place,
                        const char *const *words, int count, const char *expected)
{
    if (!section_is_kind(draft, node, NODE_TEXT, place))
        return -1;
    for (int i = 0; i < count; i++)
        if (span_equal(node->text, span_of(words[i])))
            return i;
    section_refuse(draft, node, place, expected);
    return -1;
}

void section_tristate_at(const struct section *section, const char *key, enum tristate *out_state)
{
    static const char *const words[] = {"false", "true"};
    struct place place;
    const struct node *node = section_find(section, key, &place);
    int word;

    if (node == NULL)
        return;
    word = section_read_choice(section->draft, node, &place, words, 2, "true or false");
    if (word >= 0)
        *out_state = word == 1 ? YES : NO;
}

struct span section_read_name(struct draft *draft, struct span key, const struct place *place)
{
    if (!section_is_text(key, TEXT_WORD, NAME_BYTES_MAX))
        problems_add(draft->problems, place,
                     "expected a name of 1 to %d printable ASCII characters without spaces",
                     NAME_BYTES_MAX);
    return section_keep(draft, key);
}

uint32_t section_mention_names(const struct section *section, const char *key, uint32_t most,
                               enum mention_what what, uint32_t owner)
{
    struct place place;
    const struct node *list = section_find_list(section, key, 0, most, &place);

    if (list == NULL)
        return 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct place item = section_item_place(&place, i, list->items[i]->line);
        struct span name;

        if (section_read_text(section->draft, list->items[i], &item, TEXT_WORD, NAME_BYTES_MAX,
                              &name))
            section_mention(section->draft, what, name, owner, i, &item);
    }
    return list->count;
}
