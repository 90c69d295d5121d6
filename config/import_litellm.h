/* SPDX-License-Identifier: Apache-2.0 */
/* config/import_litellm.h: what a LiteLLM proxy's configuration comes to here, on its way to YAML.
 *
 * For:       import_litellm.c and import_models.c, which fill a plan by what import_tree.c finds in
 *            the file; import_plan.c, which keeps and prints it; import_prices.c, which takes
 * prices alone from LiteLLM's public map.
 * Called by: those, and their test.
 * Knows not: YAML's grammar, files.
 *
 * All texts lie in the plan's arena or are constants. Secrets of the file are kept only to tell
 * whether two are the same; nothing prints them. */
#ifndef CONFIG_IMPORT_LITELLM_H
#define CONFIG_IMPORT_LITELLM_H

#include "config/base/arena.h"
#include "config/config.h"
#include "config/reader.h"

#define IMPORT_FALLBACK_MAX 7
#define IMPORT_ALIASES_MAX 256
#define IMPORT_VARIABLES_MAX 1024
#define IMPORT_PRICE_BYTES 40
#define IMPORT_PLACE_BYTES 200
#define IMPORT_NAME_BYTES_MAX 128

/* One thing to say, at a line of the file. */
struct import_note {
    struct import_note *next;
    uint32_t line;
    size_t order;  /* of finding */
    bool left_out; /* else only good to know */
    struct span text;
};

/* A variable that must be set before the new file can be loaded. */
struct import_variable {
    struct span name;
    struct span secret; /* the file's plain text; {NULL, 0}: the file names the variable itself */
    bool used;          /* in the new file */
};

enum import_price { PRICE_INPUT, PRICE_CACHED, PRICE_WRITE, PRICE_OUTPUT, PRICE_REASONING };
#define IMPORT_PRICES 5

struct import_replica {
    struct span name;
    struct span url;
    struct span key; /* "${NAME}"; {NULL, 0}: none */
    int64_t slots;   /* 0: not said */
    uint32_t line;
};

struct import_model {
    struct span name;
    struct span group;    /* the model_name in the file; = name but for split ones */
    struct span upstream; /* the name that its servers know */
    enum kind kind;
    uint32_t line;
    struct span prices[IMPORT_PRICES]; /* USD per million tokens; {NULL, 0}: not said */
    uint32_t price_line;               /* 0: no price is known */
    bool answers_tokens;               /* false: embeddings and the like have no output to pay */
    int64_t input_tokens;              /* the most; 0: not said */
    int64_t output_tokens;
    struct import_replica replicas[MODEL_REPLICAS_MAX];
    uint32_t replica_count;
    struct span aliases[IMPORT_ALIASES_MAX];
    uint32_t alias_count;
    const struct import_model *fallback[IMPORT_FALLBACK_MAX];
    uint32_t fallback_count;
    uint32_t fallback_line;
};

/* A number of the new file; value -1: not said. */
struct import_number {
    int64_t value;
    uint32_t line;
};

struct import_plan {
    struct arena *arena;
    struct span file; /* for messages */
    struct import_note *notes;
    size_t note_count;
    size_t left_out_count;
    struct import_model *models[CONFIG_MODELS_MAX];
    uint32_t model_count;
    struct import_variable variables[IMPORT_VARIABLES_MAX];
    uint32_t variable_count;
    struct span master_key;   /* "${NAME}" */
    uint32_t master_key_line; /* 0: the file has none */
    struct import_number timeout_ms;
    struct import_number out_after;
    struct import_number out_for_ms;
    struct import_number attempts;
    bool out_of_memory;
};

/* A node and where it stands. node NULL: not there. */
struct import_found {
    const struct node *node;
    uint32_t line;
    char key[IMPORT_PLACE_BYTES];
};

/* ---- import_plan.c ---- */

/* An empty plan. */
void import_plan_init(struct import_plan *plan, struct arena *arena, struct span file);

/* One note more. key is where in the file; the rest is formatted and must not repeat secrets. */
void import_left_out(struct import_plan *plan, uint32_t line, const char *key, const char *format,
                     ...) PRINTF_LIKE(4, 5);
void import_good_to_know(struct import_plan *plan, uint32_t line, const char *key,
                         const char *format, ...) PRINTF_LIKE(4, 5);

/* A text that lives as long as the plan; notes in the plan when there is no memory. */
struct span import_keep(struct import_plan *plan, struct span text);

/* Keeps the name that text begins with from becoming that of a plain secret. */
void import_variable_reserve(struct import_plan *plan, struct span text);

/* "${NAME}" for a variable that the file names itself. {NULL, 0}: it is no name that can stand
 * there. */
struct span import_variable_named(struct import_plan *plan, struct span name);

/* "${NAME}" for a secret that the file has in plain text; the same secret has one name. The name is
 * made of wanted in capitals; nobody else has it. {NULL, 0}: there are too many. */
struct span import_variable_for(struct import_plan *plan, struct span wanted, struct span secret);

/* USD per token, as Python writes numbers (1.5e-07), to USD per million tokens as decimal text,
 * exactly: the point moves, nothing is rounded. false: no such number, or finer than a picodollar
 * per token, or over a million USD. */
MUST_CHECK bool import_price(struct span per_token, char out_text[IMPORT_PRICE_BYTES]);

/* The model with this name or alias; NULL: none was taken over. */
struct import_model *import_find_model(struct import_plan *plan, struct span name);

/* One more model to try when none of model's servers can answer; itself and doubles are passed
 * over. false: there are too many. */
bool import_add_fallback(struct import_model *model, const struct import_model *next,
                         uint32_t line);

/* The notes alone, sorted by line; the text is malloc'ed. Errors: ERR_NO_MEMORY. */
MUST_CHECK enum err import_print_notes(const struct import_plan *plan,
                                       struct config_problems *out_notes);

/* The plan as our YAML, and its notes sorted by line. Texts are malloc'ed. Errors: ERR_NO_MEMORY.
 */
MUST_CHECK enum err import_plan_print(struct import_plan *plan, struct config_import *out_import);

/* ---- import_tree.c ---- */

/* The text for the reader, in which ${NAME} is no reference to our environment. */
struct span import_shield(struct import_plan *plan, struct span text);

/* A text as it stands in the file, ${NAME} too; {NULL, 0}: it is none, or null. */
struct span import_text_of(struct import_plan *plan, const struct node *node);

/* What stands under a key of a map that stands at above ("" is the top): the last of its name, also
 * of maps that are merged into this one. */
struct import_found import_find(const struct node *map, const char *above, const char *key);

/* A number from 1 to most; 0: not said, or said why it cannot be taken. */
int64_t import_count_at(struct import_plan *plan, const struct import_found *found, int64_t most);

/* Is it null or false? */
bool import_is_off(struct import_plan *plan, const struct node *node);

/* Printable ASCII without spaces, 1 to most bytes? */
bool import_is_word(struct span text, size_t most);

/* May a model have this name here? Says why not. */
bool import_is_good_name(struct import_plan *plan, const struct import_found *found,
                         struct span name);

/* Says of every key that is not among those taken (a list that ends in NULL) why it is left out. */
void import_list_rest(struct import_plan *plan, const struct node *map, const char *above,
                      const char *const *taken);

/* os.environ/NAME or ${NAME} as "${NAME}"; {NULL, 0}: it is neither. */
struct span import_reference(struct import_plan *plan, struct span text);

/* A secret of the file as a reference; a plain one gets a name made of owner and suffix. {NULL, 0}:
 * there is none. */
struct span import_secret_at(struct import_plan *plan, const struct import_found *found,
                             struct span owner, const char *suffix);

/* ---- import_models.c ---- */

/* Every variable that the text names, or that a provider's default names: no plain secret gets such
 * a name. */
void import_reserve_names(struct import_plan *plan, struct span text);

/* One entry of model_list. slots: when it says none itself; 0: not said. */
void import_deployment(struct import_plan *plan, const struct node *root, const struct node *entry,
                       uint32_t index, int64_t slots);

/* Says which models have no price. */
void import_say_what_is_free(struct import_plan *plan);

/* ---- import_prices.c ---- */

/* The text of LiteLLM's price map; name stands for the file in notes. As config_import_prices(). */
MUST_CHECK enum err import_prices_text(const char *name, struct span text, struct span models,
                                       struct config_import *out_import);

/* ---- import_litellm.c ---- */

/* The whole file, malloc'ed; false (errno says why) when it cannot be read. */
MUST_CHECK bool import_read_file(const char *path, char **out_text, size_t *out_size);

/* A LiteLLM configuration's text; name stands for the file in notes. As config_import_litellm(). */
MUST_CHECK enum err import_litellm_text(const char *name, struct span text,
                                        struct config_import *out_import);

#endif
