/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/ask_prompt.h: what a model is to read: messages, prompts, inputs, pairs of texts; pure.
 *
 * For:       how much text there is, the system prompt, media and where it comes from.
 * Called by: ask.c (its table of members).
 * Knows not: which endpoint it reads for.
 *
 * Each function takes the value of one member of the outermost object and answers false when the
 * pass has ended: reader then says why, or its scan does. */
#ifndef GATEWAY_ASK_PROMPT_H
#define GATEWAY_ASK_PROMPT_H

#include "gateway/ask_reader.h"

/* Text that is rendered into the prompt, whatever its shape. bits: what is given by it. */
bool ask_read_text(struct ask_reader *reader, const struct ask_member *member);

/* A prompt, or an input: a string, or a list of strings, of token ids, or of lists of token ids.
 * bits: INPUT_OBJECTS where parts (objects with text or media) may stand, too. */
bool ask_read_prompt(struct ask_reader *reader, const struct ask_member *member);
#define INPUT_OBJECTS 1u

/* A list of messages. */
bool ask_read_messages(struct ask_reader *reader, const struct ask_member *member);

/* The input of responses: a string, or a list of items. */
bool ask_read_items(struct ask_reader *reader, const struct ask_member *member);

/* A system prompt that is no message: a string, or a list of text parts. */
bool ask_read_instructions(struct ask_reader *reader, const struct ask_member *member);

/* One side of the pairs of rerank and score: a text, an object with text or parts, or a list of
 * these. bits: which side. */
bool ask_read_side(struct ask_reader *reader, const struct ask_member *member);

/* Input in a form that only a plug-in of the model server knows: taken for media. */
bool ask_read_data(struct ask_reader *reader, const struct ask_member *member);

/* All sides have been read: pairs become prompts, and a text that stands in several is counted in
 * each. */
void ask_count_pairs(struct ask_reader *reader);

#endif
