/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fake/schema.h: a value that fits a JSON schema.
 *
 * For:       arguments of tool calls and structured output.
 * Called by: content.c.
 * Knows not: requests. */
#ifndef FAKE_SCHEMA_H
#define FAKE_SCHEMA_H

#include "tests/fake/json.h"

/* Adds a value of the schema (raw JSON text; an empty one allows anything): of an object each
 * required property, all when none is named so. Knows type, enum, const, default, properties,
 * required, items, minItems, minimum, anyOf, oneOf, allOf (its first) and $ref within the schema.
 */
void schema_add_value(struct buffer *out, struct text schema);

#endif
