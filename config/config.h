/* SPDX-License-Identifier: Apache-2.0 */
/* config/config.h: what the operator wants; the door of this room.
 *
 * For:       one YAML file (or the embedded default) into an immutable, counted snapshot.
 * Promises:  1. A snapshot never changes after config_load() (but for the state pointers, which the
 *               owning rooms set before it is published).
 *            2. A bad file yields no snapshot and every error at once, with file, line and key.
 *            3. An exchange that holds a snapshot may borrow any text in it until config_put().
 * Example:   struct config *config;
 *            if (config_load("tollgate.yaml", &config, &problems) != OK)
 *                print(problems);
 * Called by: any room; loaded by the gateway's main, check and reload.
 * Knows not: sockets, requests, what the rooms do with the values. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include "config/base/api.h"
#include "config/base/err.h"
#include "config/base/hash.h"
#include "config/base/span.h"
#include "config/base/vocab.h"

struct replica_state;   /* router's: outlives snapshots, found by "model/replica" */
struct model_state;     /* router's: outlives snapshots, found by name */
struct estimate_state;  /* meter's: learned bytes per token of a model */
struct replica_account; /* meter's: tokens and cost of a replica, found by "model/replica" */
struct zone;            /* base/zone.h */

/* pusd (1e-12 USD) per token, by class. */
struct rates {
    int64_t input;
    int64_t cached_input; /* = input when the file does not say */
    int64_t cache_write;  /* = input when the file does not say */
    int64_t output;
    int64_t reasoning; /* = output when the file does not say */
};

/* Other rates for calls whose prompt (input, cached_input and cache_write together) is longer. */
struct price_bracket {
    int64_t above; /* tokens */
    struct rates rates;
};

/* A discount on all that a tenant used of a model in a month: it is given on the invoice, never in
 * a row, so that it does not depend on the order in which gateways write. */
struct price_volume {
    int64_t above; /* tokens of all classes together in the month */
    int64_t factor_ppm;
};

#define PRICE_BRACKETS_MAX 3u
#define PRICE_VOLUMES_MAX 4u
#define PRICE_PPM 1000000 /* a factor of 1 */

/* One dated row of a model's price. */
struct price {
    int64_t from_us;  /* holds from this moment (microseconds since 1970 UTC) on … */
    int64_t until_us; /* … and before this one; INT64_MAX: open. Never a gap before the next row */
    struct rates rates;
    int64_t cache_hit; /* pusd per token of an answer from our own cache; 0 when not said */
    int64_t tier_ppm[SERVICE_TIERS]; /* factor of all rates; each product is whole */
    bool bracket_marginal;  /* only the tokens beyond a bracket cost its rates; else all of the call
                             */
    bool bracket_inclusive; /* a prompt of exactly `above` tokens is beyond it already */
    uint32_t bracket_count;
    struct price_bracket brackets[PRICE_BRACKETS_MAX]; /* ascending */
    bool volume_marginal; /* only the tokens beyond are cheaper; else all of the month */
    uint32_t volume_count;
    struct price_volume volumes[PRICE_VOLUMES_MAX]; /* ascending */
    uint32_t book; /* set by meter_adopt(): its row in the meter's price book */
};

struct tls_context; /* gateway's: certificates and keys as the TLS library wants them */

/* What a tls map says. Paths are ready to be opened and end in a NUL; {NULL, 0}: not said. */
struct config_tls {
    struct span certificate; /* ours, the chain behind it */
    struct span key;         /* of the certificate; the same file when not said */
    struct span ca;          /* who signs the other side; a listener asks for certificates then */
    struct span name;        /* replicas: what its certificate must be for, and SNI says */
    bool verify;             /* replicas: false takes any certificate */
    struct span place;       /* the map's key, for messages; {NULL, 0}: there is no map */
    uint32_t line;
};

/* host:port or a Unix socket to listen at. */
struct config_listen {
    struct span address;     /* as written: 127.0.0.1:4000, [::1]:4000 or unix:/run/x.sock */
    struct span host;        /* {NULL, 0}: a Unix socket */
    uint16_t port;           /* 0: the kernel picks (tests); tollgate logs the port */
    struct span socket_path; /* NUL-terminated; {NULL, 0}: none */
    uint32_t mode;           /* of the socket's file */
    bool tls_present;
    struct config_tls tls;
    struct tls_context *context; /* set by tls_adopt() before publication; NULL: no TLS */
};

/* One model server. */
struct config_replica {
    struct span name;
    struct span url;  /* as written, for /replicas */
    struct span host; /* name or address, no brackets; NUL-terminated */
    uint16_t port;
    struct span socket_path; /* NUL-terminated; {NULL, 0}: reached by host and port */
    bool https;
    struct config_tls tls;
    struct tls_context *context; /* set by tls_adopt() before publication; NULL: no TLS */
    struct span host_header;     /* what goes into Host: */
    struct span base_path;       /* "" or "/x", no trailing slash, without a trailing /v1 */
    struct span key;             /* bearer for this replica; {NULL, 0}: none. Secret */
    uint32_t slots;
    int64_t pusd_per_hour;       /* -1: not said */
    uint32_t index;              /* of this replica in its model: 0 … MODEL_REPLICAS_MAX - 1 */
    struct replica_state *state; /* set by router_adopt() before publication */
    struct replica_account *account; /* set by meter_adopt() before publication */
};

/* What a chat template may add to the text of a prompt, in tokens: the bound counts on it. */
struct config_template {
    int64_t fixed; /* once a prompt */
    int64_t per_message;
    int64_t per_tool;
    int64_t schema_percent; /* tokens of tools' schemas, of 100 for their JSON bytes */
};

/* Parts of a prompt that are no text. */
enum part_kind { PART_IMAGE, PART_AUDIO, PART_VIDEO, PART_FILE, PART_KINDS };

#define MODEL_REPLICAS_MAX 64
#define CONFIG_MODELS_MAX 256

struct config_model {
    struct span name;
    uint32_t index; /* in config->models; bit of this model in sets of models */
    enum kind kind;
    struct price *prices; /* oldest first, price_count ≥ 1 */
    uint32_t price_count;
    int64_t context; /* tokens; 0: not said */
    int64_t output;  /* most tokens an answer; 0: not said */
    struct config_template template_tokens;
    int64_t part_tokens[PART_KINDS]; /* most tokens of one part that is no text; 0: not said */
    struct span upstream_model;      /* the name that replicas know; = name when not said */
    struct span *aliases;
    uint32_t alias_count;
    struct config_replica *replicas; /* at least one */
    uint32_t replica_count;
    const struct config_model **fallback; /* models to try next, in order */
    uint32_t fallback_count;
    uint32_t translate; /* bits 1 << endpoint: translated to chat although its kind has them */
    struct model_state *state;       /* set by router_adopt() */
    struct estimate_state *estimate; /* set by meter_adopt() */
};

/* All that a model's translate may hold. */
#define TRANSLATE_ALL (1u << ENDPOINT_MESSAGES | 1u << ENDPOINT_RESPONSES)

/* How a model's servers have an endpoint. */
enum service config_service(const struct config_model *model, enum endpoint endpoint);

/* A set of models of one snapshot, by index. */
struct model_set {
    uint64_t bits[CONFIG_MODELS_MAX / 64];
};

static inline bool model_set_has(const struct model_set *set, uint32_t index)
{
    return (set->bits[index / 64] >> (index % 64)) & 1u;
}

/* A rule matches when every part that is given matches. */
struct config_header_match {
    struct span name;  /* lower case */
    struct span value; /* pattern with *, ASCII case ignored */
};

enum tristate { ANY, NO, YES };

struct config_class {
    struct span name;
    struct config_header_match *headers;
    uint32_t header_count;
    enum endpoint endpoint;    /* ENDPOINT_NONE: any */
    struct span model_asked;   /* pattern; {NULL, 0}: any */
    struct span system_prompt; /* pattern; {NULL, 0}: any */
    enum tristate tools;
    enum tristate images;
    enum tristate schema; /* response_format with a JSON schema or json_object */
    int64_t min_bytes;    /* of the body; -1: any */
    int64_t max_bytes;    /* -1: any */
    /* The model of this class: NULL = the one the client asked for; model_auto = as NULL until the
     * classifier comes, except that an ask for the model "auto" takes the cheapest allowed. */
    const struct config_model *model;
};

struct config_key {
    struct span id;
    uint8_t digest[HASH_SHA256_BYTES]; /* SHA-256 of the key's text */
    int64_t expires_us;                /* 0: never */
    const struct config_tenant *tenant;
};

/* Body fields refused unless the tenant has them in allow, as bits. */
enum refused_field {
    REFUSED_PRIORITY = 1u << 0,
    REFUSED_KV_TRANSFER_PARAMS = 1u << 1,
    REFUSED_EC_TRANSFER_PARAMS = 1u << 2,
    REFUSED_REQUEST_ID = 1u << 3,
    REFUSED_SESSION_ID = 1u << 4,
    REFUSED_VLLM_XARGS = 1u << 5,
    REFUSED_PROMPT_EMBEDS = 1u << 6,
    REFUSED_CHAT_TEMPLATE = 1u << 7,
    REFUSED_REMOTE_MEDIA = 1u << 8, /* remote URLs in media parts; "remote_urls" in allow */
};

struct config_tenant {
    struct span name;
    struct config_key *keys;
    uint32_t key_count;
    struct model_set models; /* which it may use; all when not said */
    uint32_t allow;          /* enum refused_field bits */
    struct span tags_json;   /* {"team":"search",…} compact, ready for the row; {NULL, 0}: none */
    const struct zone *zone; /* where its days and months begin; UTC when not said. Never NULL */
    uint8_t salt[16];        /* secret of this tenant in this process, for cache_salt */
};

/* Everything with a fixed place: one field per OPTION row of options.def, generated from it:
 * config->limits_body_bytes, config->timeouts_head_ms, config->retry_attempts, … */
struct config {
    uint64_t generation;               /* 1, 2, … in order of loading */
    struct span file;                  /* path it came from, or "(embedded)" */
    uint8_t digest[HASH_SHA256_BYTES]; /* of the file's bytes */

    struct config_listen *listen;
    uint32_t listen_count;
    struct config_listen admin;
    bool admin_present;
    struct span admin_token; /* {NULL, 0}: none. Secret */
    struct span gateway;     /* this process's name */
    uint32_t workers;        /* resolved: ≥ 1 */
    struct span *cors_origins;
    uint32_t cors_origin_count;
    struct span log_access;
    int32_t log_level;     /* enum log_level */
    struct span journal;   /* directory; {NULL, 0}: none is kept */
    struct span ledger;    /* path of the SQLite file; {NULL, 0}: none is kept */
    uint32_t journal_line; /* of its key, for messages */
    uint32_t ledger_line;
    struct span signing_key;   /* path of the PEM file that heads are signed with; {NULL, 0}:
                                * signing.key in the journal directory, made when absent */
    uint32_t signing_key_line; /* of the file */
    struct span anchor_file;   /* where anchors are appended; {NULL, 0}: nowhere */
    struct span
        anchor_command; /* run by /bin/sh with an anchor on its standard input; {NULL, 0}: none */
    bool durable;       /* durability: power; the last bytes wait until the row is synced */
    int64_t opex_ppm;   /* factor on usd_per_hour; PRICE_PPM: 1 */
    struct span *names_servers; /* address and port of name servers; none: the system's are asked */
    uint32_t names_server_count;

    struct config_model *models;
    uint32_t model_count;
    struct config_class *classes;
    uint32_t class_count;
    struct config_tenant *tenants;
    uint32_t tenant_count;

    /* Called when the snapshot goes, to give back what the gateway hung on it; NULL: nothing. */
    void (*released)(struct config *config);

#define OPTION(name, type, fallback, minimum, maximum, unit, reload, help) int64_t name;
#include "config/options.def"
#undef OPTION
};

/* Every problem of a file, one line of text each: "file:line: key: what was expected". */
struct config_problems {
    char *text; /* malloc'ed, NUL-terminated, lines end in \n; NULL when none */
    size_t size;
    size_t count;
};

/* Reads, checks and resolves a file. *out_config then has one reference, the caller's.
 * Errors: ERR_BAD_VALUE (see problems), ERR_NO_MEMORY. With OK, problems may hold warnings. */
MUST_CHECK enum err config_load(const char *path, struct config **out_config,
                                struct config_problems *out_problems);

/* The same from text in memory; name stands for the file in messages. */
MUST_CHECK enum err config_load_text(const char *name, struct span text, struct config **out_config,
                                     struct config_problems *out_problems);

/* One problem more that somebody else found in a loaded file, at a key and its line. Errors:
 * ERR_NO_MEMORY. */
MUST_CHECK enum err config_problems_add(struct config_problems *problems,
                                        const struct config *config, struct span key, uint32_t line,
                                        const char *what);

/* Frees the text. Safe twice. */
void config_problems_free(struct config_problems *problems);

/* One more reference; returns config. Atomic: any thread. */
struct config *config_get(struct config *config);

/* Gives a reference back; the last one frees the snapshot. NULL is fine. */
void config_put(struct config *config);

/* The key with this digest, NULL when there is none. Constant-time compare, the same work on a
 * miss. Does not look at expiry. */
const struct config_key *config_find_key(const struct config *config,
                                         const uint8_t digest[HASH_SHA256_BYTES]);

/* The model with this name or alias; NULL when there is none. */
const struct config_model *config_find_model(const struct config *config, struct span name);

/* The zone in which a tenant's days and months begin; UTC for a name that is none. */
const struct zone *config_zone_of(const struct config *config, struct span tenant);

/* The price row that holds at a moment; NULL before the first one and after the last. */
const struct price *config_price_at(const struct config_model *model, int64_t wall_us);

/* The snapshot as YAML text without secrets ("***" in their place), for /config. malloc'ed. */
MUST_CHECK char *config_print_redacted(const struct config *config, size_t *out_size);

/* What another gateway's configuration comes to here. */
struct config_import {
    char *yaml; /* malloc'ed, NUL-terminated, without any secret of the file; NULL: none was made */
    size_t yaml_size;
    struct config_problems notes; /* "file:line: key: left out: why" or "file:line: key: note: …" */
    size_t left_out_count;        /* of the notes */
    size_t model_count;
    size_t replica_count;
};

/* Reads a LiteLLM proxy's configuration. With OK there is YAML, whatever was left out.
 * Errors: ERR_BAD_VALUE (no such file, not YAML, not a map; the notes say why), ERR_NO_MEMORY. The
 *         caller frees in any case. */
MUST_CHECK enum err config_import_litellm(const char *path, struct config_import *out_import);

/* Reads LiteLLM's public price map (JSON) into price lists, one a model, to be put under models:.
 * models: names with commas between, {NULL, 0}: all that have a price per token. Numbers are taken
 * as they are written, never as floats. As above.
 * Errors: ERR_BAD_VALUE (also a name that the map has not), ERR_NO_MEMORY. */
MUST_CHECK enum err config_import_prices(const char *path, struct span models,
                                         struct config_import *out_import);

/* Frees the texts. Safe twice. */
void config_import_free(struct config_import *import);

/* Prints what an option (or a section, or everything: name NULL) means, for `tollgate explain`.
 * Names of the operator's choice may stand in it or not (models.small.price, models.price); the end
 * of a key that no other ends with will do (segment_bytes). false: no such name, the nearest one is
 * printed; or several keys end so, which are. */
bool config_explain(const char *name, bool json);

#endif
