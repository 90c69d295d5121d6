/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/translate_responses.h: what the halves of the translation of responses share; pure.
 *
 * For:       the names between the files.
 * Called by: translate_responses*.c alone.
 * Knows not: anything but JSON. */
#ifndef GATEWAY_TRANSLATE_RESPONSES_H
#define GATEWAY_TRANSLATE_RESPONSES_H

#include "gateway/translate.h"
#include "gateway/value.h"

/* Makes JSON from byte `from` on one line: what may stand in the data of an event. Line ends only
 * stand between its values. */
void responses_join_lines(struct buffer *json, size_t from);

/* ---- the ask ---- */

/* What is carried while an ask is written. */
struct asking {
    struct span body;
    struct writer *out;
    struct ask_problem *problem;
    bool wrote_message;  /* a message stands before: a comma comes next */
    bool assistant_open; /* an assistant message that tool calls may still join */
    bool calls_open;     /* and it has some */
};

/* Ends the translation: fills the problem, which lies where value begins. Always false. */
bool responses_refuse(struct asking *asking, struct span value, const char *message,
                      const char *param);

/* "messages":[…] of instructions and input. false: *asking->problem says why. */
MUST_CHECK bool responses_write_messages(struct asking *asking, struct span instructions,
                                         struct span input);

/* translate_ask() of this API, with its errors. */
enum err responses_ask(struct span body, uint32_t json_depth, struct writer *out,
                       struct ask_problem *out_problem);

/* ---- the answer ---- */

enum item_kind { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL };

/* One element of output. Texts are raw: the insides of JSON strings with their escapes. */
struct item {
    enum item_kind kind;
    bool done;                   /* its last event went out */
    bool incomplete;             /* once done: it was cut */
    int text_part, refusal_part; /* content_index of a message's parts, -1: there is none */
    int64_t call_index;          /* the server's index of a call; -1: it gave none */
    struct buffer text;          /* what was thought, said, or passed as arguments */
    struct buffer refusal;       /* of a message */
    struct buffer logprobs;      /* of a message's text: elements of the list, with commas */
    bool logprobs_went;          /* they were too many to stand again at its end */
    struct buffer call_id, name; /* of a call */
};

/* How the answer ended. */
enum ending {
    ENDING_OPEN, /* no finish_reason yet */
    ENDING_COMPLETED,
    ENDING_LENGTH,
    ENDING_FILTER,
    ENDING_FAILED
};

/* Tokens as chat completions report them; -1: not told. */
struct counts {
    int64_t prompt, cached, cache_write, completion, reasoning, total;
};

/* One answer under way. Items lie in the order of output: those before `added` are known to the
 * client and their place is their output_index; behind them are calls whose name has not come. */
struct answering {
    struct writer *out; /* of the call at hand */
    bool streams;       /* events go out; else items are gathered for one answer */
    bool begun, ended;
    enum ending ending;
    int64_t sequence; /* sequence_number of the next event */
    int64_t created_s;
    struct writer id;    /* the exchange's, as a JSON string with its quotes */
    struct writer echo;  /* what the response repeats of its ask */
    struct writer error; /* message of a failure, as a JSON string with its quotes */
    struct span error_code;
    struct buffer service_tier; /* raw, as the server says */
    bool has_counts;
    struct counts counts;
    struct item *items;
    size_t item_count, item_room, added;
    size_t open; /* place of the reasoning or message that more text joins, or ITEM_NONE */
    size_t kept, kept_most; /* bytes of all texts, and their bound */
    enum err err;           /* of what is kept; sticks */
};

#define ITEM_NONE SIZE_MAX

/* Keeps more raw text. */
void answering_keep(struct answering *answering, struct buffer *buffer, struct span raw);

/* The events that begin a stream, once. */
void answering_begin(struct answering *answering);

/* Appends an item that the client knows nothing of; NULL: answering->err says why. */
struct item *answering_new_item(struct answering *answering, enum item_kind kind);

/* Makes it part of output, with the events for that; returns its place. */
size_t answering_add_item(struct answering *answering, size_t place);

/* Text for the items at place, kept and sent. */
void answering_reason(struct answering *answering, size_t place, struct span raw);
void answering_say(struct answering *answering, size_t place, struct span raw,
                   struct span logprobs);
void answering_refuse(struct answering *answering, size_t place, struct span raw);
void answering_argue(struct answering *answering, size_t place, struct span raw);

/* Ends an item, with the events that repeat it. Idempotent. */
void answering_finish_item(struct answering *answering, size_t place, bool incomplete);

/* Writes the response as it stands now. */
void answering_write_response(struct answering *answering);

/* The event that ends the stream, once. */
void answering_end(struct answering *answering);

/* Writes what a response repeats of its ask, as members with a comma behind each. A member that is
 * not of the type that the API demands, or would take all of them over ECHO_BYTES_MAX, is as if
 * absent. */
#define ECHO_BYTES_MAX (256u << 10)
void responses_write_echo(struct writer *echo, const struct translator_facts *facts);

/* What the row of struct translation points at: an answer is begun (NULL: no memory), fed, and
 * freed by responses_end_of_life(). state: a struct answering. */
void *responses_begin(const struct translator_facts *facts);
void responses_end_of_life(void *state);
enum err responses_event(void *state, struct span json, struct writer *out);
enum err responses_end(void *state, struct writer *out);
enum err responses_whole(void *state, struct span json, struct writer *out);
int64_t responses_sequence(const void *state);

#endif
