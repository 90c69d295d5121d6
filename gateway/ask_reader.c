/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask_reader.c: see ask_reader.h.
 *
 * For:       refusals, texts and names; and that no key of the outermost object stands twice.
 * Called by: ask.c, ask_prompt.c.
 * Knows not: what a member means. */
#include "gateway/ask_reader.h"

#include "config/base/hash.h"

#define MEMBERS_MAX 10000
#define PROBES_MAX (16 * MEMBERS_MAX) /* of the hash table; honest keys need a tenth of it */

bool ask_refuse(struct ask_reader *reader, enum err err, const char *at, const char *message,
                const char *param)
{
    reader->err = err;
    reader->problem = (struct ask_problem){
        .offset = (size_t)(at - reader->scan.start),
        .message = message,
        .param = param,
    };
    return false;
}

bool ask_bad_value(struct ask_reader *reader, struct span value, const char *message,
                   const char *param)
{
    return ask_refuse(reader, ERR_BAD_VALUE, value.data, message, param);
}

static bool no_memory(struct ask_reader *reader)
{
    reader->err = ERR_NO_MEMORY;
    return false;
}

struct ask_place ask_place_of(const struct ask_reader *reader, struct span value)
{
    return (struct ask_place){(size_t)(value.data - reader->scan.start), value.size};
}

bool ask_take_text(struct ask_reader *reader, struct span value, const char *param,
                   struct span *out_text)
{
    const struct span raw = value_inside(value);

    if (!value_has_escapes(raw)) {
        *out_text = raw;
        return true;
    }

    char *text = arena_take(reader->arena, raw.size);
    size_t size;

    if (text == NULL)
        return no_memory(reader);
    if (!scan_decode(raw, text, &size))
        return ask_refuse(reader, ERR_BAD_VALUE, raw.data, "this text has half of a surrogate pair",
                          param);
    *out_text = (struct span){text, size};
    return true;
}

/* ---- duplicate keys ---- */

enum added { ADDED_NEW, ADDED_TWICE, ADDED_CROWDED };

/* Puts a key into the table. Keys made to collide end as "crowded", so that work stays linear. */
static enum added add_to_table(struct keys *keys, struct span key)
{
    const uint32_t mask = keys->slot_count - 1;
    uint32_t at = (uint32_t)hash_text(key) & mask;

    while (keys->slots[at].key.data != NULL) {
        if (span_equal(keys->slots[at].key, key))
            return ADDED_TWICE;
        if (++keys->probes > PROBES_MAX)
            return ADDED_CROWDED;
        at = (at + 1) & mask;
    }
    keys->slots[at].key = key;
    return ADDED_NEW;
}

/* A table twice as large, with the keys of the old one or the first ones. */
static bool grow_table(struct ask_reader *reader)
{
    struct keys *keys = &reader->keys;
    const uint32_t old_count = keys->slot_count;
    const struct key_slot *old = keys->slots;
    const uint32_t count = old_count > 0 ? 2 * old_count : 2 * KEYS_COMPARED;
    struct key_slot *slots = arena_take_zeroed(reader->arena, count * sizeof(*slots));

    if (slots == NULL)
        return no_memory(reader);
    keys->slots = slots;
    keys->slot_count = count;
    if (old_count == 0)
        for (uint32_t i = 0; i < KEYS_COMPARED; i++)
            (void)add_to_table(keys, keys->first[i]);
    for (uint32_t i = 0; i < old_count; i++)
        if (old[i].key.data != NULL)
            (void)add_to_table(keys, old[i].key);
    return true;
}

static enum added add_to_first(struct keys *keys, struct span key)
{
    for (uint32_t i = 0; i < keys->count; i++)
        if (span_equal(keys->first[i], key))
            return ADDED_TWICE;
    keys->first[keys->count] = key;
    return ADDED_NEW;
}

/* Keeps a decoded top-level key; refuses the body when it was there before. */
static bool note_key(struct ask_reader *reader, const char *at, struct span key)
{
    struct keys *keys = &reader->keys;
    enum added added = ADDED_CROWDED;

    if (keys->count < KEYS_COMPARED) {
        added = add_to_first(keys, key);
    } else if (keys->count < MEMBERS_MAX) {
        if (keys->slot_count * 3 < 4 * (keys->count + 1) && !grow_table(reader))
            return false;
        added = add_to_table(keys, key);
        if (added == ADDED_NEW && keys->probes > PROBES_MAX)
            added = ADDED_CROWDED; /* while the table grew */
    }
    if (added == ADDED_TWICE)
        return ask_refuse(reader, ERR_BAD_JSON, at, "this key stands twice in the object", NULL);
    if (added == ADDED_CROWDED)
        return ask_refuse(reader, ERR_BAD_JSON, at, "the object has too many members", NULL);
    keys->count++;
    return true;
}

bool ask_take_key(struct ask_reader *reader, struct span raw, struct span *out_key)
{
    *out_key = raw;
    if (value_has_escapes(raw)) {
        char *text = arena_take(reader->arena, raw.size);
        size_t size;

        if (text == NULL)
            return no_memory(reader);
        if (!scan_decode(raw, text, &size))
            return ask_refuse(reader, ERR_BAD_JSON, raw.data, "a key has half of a surrogate pair",
                              NULL);
        *out_key = (struct span){text, size};
    }
    return note_key(reader, raw.data - 1, *out_key);
}
