/* SPDX-License-Identifier: Apache-2.0 */
/* meter/books.h: what was charged; the door of this room for those who read.
 *
 * For:       the journal's directory and the ledger beside it: usage, invoices, corrections,
 *            audits.
 * Promises:  1. The journal is the record; the ledger is a view of it that can be made anew.
 *            2. Feeding twice changes nothing: rows are known by gateway, epoch and seq.
 *            3. Sums are exact: 128 bits, no float.
 *            4. What is damaged is named with file and offset, and nothing behind it is taken in.
 * Example:   books_open(config, &books, problem, sizeof problem);
 *            books_feed(books, INT64_MAX, NULL, problem, sizeof problem);
 *            books_usage(books, &ask, print_line, NULL, problem, sizeof problem);
 * Called by: the gateway's commands; usage_api.c and admin.c through meter_query().
 * Knows not: how anything is printed or asked for over HTTP. */
#ifndef METER_BOOKS_H
#define METER_BOOKS_H

#include "config/base/money.h"
#include "config/base/period.h"
#include "config/base/sign.h"
#include "config/config.h"

struct books;
struct record; /* meter/record.h: a row as read; its texts borrow from the callback's call */

/* The ledger of a configuration: without meter.ledger a file ledger.db in the journal's directory
 * is used by commands. Makes it when absent. One thread.
 * Errors: ERR_BAD_VALUE (no journal is configured; a ledger that is damaged, of another version or
 * fed from another journal; problem names file, line and key), ERR_INTERNAL, ERR_NO_MEMORY. */
MUST_CHECK enum err books_open(const struct config *config, struct books **out_books, char *problem,
                               size_t problem_size);
void books_close(struct books *books);

/* Where the signing key lies: as configured, else in the journal's folder. */
void books_key_path(const struct config *config, char out[SIGN_PATH_BYTES]);

/* Is there a folder for this path to lie in? A start makes no folder but the journal's own. false:
 * problem says which is missing. */
bool books_has_folder(const struct config *config, const char *path, char *problem,
                      size_t problem_size);

/* Would books_open() refuse what is configured, or a start for want of a folder? Makes and changes
 * nothing. Errors: ERR_BAD_VALUE (one more problem says why), ERR_NO_MEMORY. */
MUST_CHECK enum err books_check(const struct config *config, struct config_problems *problems);

enum books_purpose { BOOKS_USE, BOOKS_AUDIT, BOOKS_ANEW };

/* As books_open(), for who needs the ledger also when that would refuse it. BOOKS_AUDIT: one of
 * another journal is opened, but takes nothing in (books_feed() says why). BOOKS_ANEW: one that
 * cannot be used gets another name (books_aside()), and an empty one takes its place. */
MUST_CHECK enum err books_open_for(const struct config *config, enum books_purpose purpose,
                                   struct books **out_books, char *problem, size_t problem_size);

/* Where the ledger is kept that could not be read, or was of another journal; "": none was so. */
const char *books_aside(const struct books *books);

/* ---- feeding ---- */

/* Takes rows of the journal in, at most so many, in one transaction per few thousand. *out_rows:
 * how many (may be NULL). Only one process feeds at a time (a lock beside the ledger): another that
 * tries gets OK and 0 rows, and books_behind() says what is left. Errors: ERR_BAD_VALUE (damage:
 * file and offset in problem; what is before it is in, and other files are), ERR_INTERNAL. */
MUST_CHECK enum err books_feed(struct books *books, int64_t most_rows, int64_t *out_rows,
                               char *problem, size_t problem_size);

/* Lines on disk that are not in the ledger yet, as of the last feed. */
int64_t books_behind(const struct books *books);

/* Makes the ledger anew beside the old one and puts it in its place. What of the old one cannot be
 * read is left behind; books_aside() is then where it is kept. */
MUST_CHECK enum err books_rebuild(struct books *books, int64_t *out_rows, char *problem,
                                  size_t problem_size);

/* ---- usage: sums by any columns ---- */

/* What lines may be grouped by. Those before BY_TRACE come from roll-ups (a quarter of an hour:
 * every zone's hours, days and months begin on one); the others from the rows. */
/* clang-format off */
#define BOOKS_COLUMNS(COLUMN)                                                     \
    COLUMN(TENANT,   tenant)                                                      \
    COLUMN(KEY,      key)                                                         \
    COLUMN(TAGS,     tags)                                                        \
    COLUMN(MODEL,    model)                                                       \
    COLUMN(CLASS,    class)                                                       \
    COLUMN(TIER,     tier)                                                        \
    COLUMN(ENDPOINT, endpoint)                                                    \
    COLUMN(REPLICA,  replica)                                                     \
    COLUMN(OUTCOME,  outcome)                                                     \
    COLUMN(SOURCE,   source)                                                      \
    COLUMN(GATEWAY,  gateway)                                                     \
    COLUMN(PRICES,   prices)                                                      \
    COLUMN(TRACE,    trace)                                                       \
    COLUMN(REQUEST,  request)                                                     \
    COLUMN(STATUS,   status)                                                      \
    COLUMN(ASKED,    model_asked)                                                 \
    COLUMN(STREAM,   stream)
/* clang-format on */
enum books_column {
#define COLUMN(id, name) BY_##id,
    BOOKS_COLUMNS(COLUMN)
#undef COLUMN
        BOOKS_COLUMN_COUNT
};

/* As an operator writes it, and the ledger: "tenant". Static. */
const char *books_column_name(enum books_column column);

#define BOOKS_BY_MAX 6u
#define BOOKS_FILTERS_MAX 8u

struct books_filter {
    enum books_column column;
    struct span value; /* equal to this; "" : the column is absent */
};

struct books_ask {
    struct period period;    /* by admission */
    const struct zone *zone; /* of buckets and of the period's edges */
    bool bucketed;
    enum period_unit bucket; /* lines by hour, day, … too; minutes: see bucket_us */
    int64_t bucket_us;       /* 0, or a bucket of so long (a minute) that begins at the period */
    enum books_column by[BOOKS_BY_MAX];
    uint32_t by_count;
    struct span tag; /* BY_TAGS groups and filters by this tag's value; {NULL, 0}: whole objects */
    struct books_filter filters[BOOKS_FILTERS_MAX];
    uint32_t filter_count;
};

/* Sums of tokens, which a row's 64 bits may not hold. */
struct books_tokens {
    money_sum input, cached_input, cache_write, output, reasoning;
};

/* One line: the sums of its group. */
struct books_line {
    int64_t bucket_us;            /* where its bucket begins; INT64_MIN: no buckets */
    struct span by[BOOKS_BY_MAX]; /* in the order asked; {NULL, 0}: absent in the rows */
    int64_t calls, billed_calls;
    int64_t failed_calls;      /* outcome is neither ok nor hit nor joined */
    struct books_tokens usage; /* sums, of billable rows and adjusts; never unknown */
    money_sum cost_pusd;       /* adjusts included */
    money_sum adjusted_pusd;   /* of these, by adjusts */
    money_sum own_cost_pusd;   /* what the tokens cost us: Σ computed tokens × unit cost,
                                * where known */
    int64_t own_cost_calls;    /* billed calls whose unit cost is known */
    int64_t busy_us;           /* Σ of sent to ended */
    int64_t bytes_in, bytes_out;
    struct books_tokens wasted; /* of attempts not delivered: the operator's account */
};

/* Calls visit for each group, ordered by bucket, then by the columns, until it returns false.
 * Errors: ERR_INTERNAL, ERR_BAD_VALUE (a sum does not fit). */
MUST_CHECK enum err books_usage(struct books *books, const struct books_ask *ask,
                                bool (*visit)(void *owner, const struct books_line *line),
                                void *owner, char *problem, size_t problem_size);

/* Failed, retried, cut and crashed work by replica and cause: attempts' wasted tokens of the
 * period, and what they cost us (own_cost_pusd); by[0] is the model, by[1] the replica, by[2] the
 * cause; calls counts attempts. */
MUST_CHECK enum err books_waste(struct books *books, const struct period *period,
                                bool (*visit)(void *owner, const struct books_line *line),
                                void *owner, char *problem, size_t problem_size);

/* ---- rows ---- */

/* Rows in the order of their admission: of a tenant ({NULL, 0}: of all) in a period; or those whose
 * request, exchange, trace or row id ("g1/7/123") is `id` (then the period may be NULL), and
 * adjusts of them. line: the whole line as the journal has it. */
MUST_CHECK enum err books_rows(struct books *books, struct span tenant, const struct period *period,
                               struct span id,
                               bool (*visit)(void *owner, const struct record *record,
                                             struct span line),
                               void *owner, char *problem, size_t problem_size);

/* A request that has no row yet: it lies in the table of its process. Texts may be empty. */
enum books_pending_state {
    PENDING_UNDER_WAY, /* it is being answered */
    PENDING_ENDED,     /* its process writes the row in a moment */
    PENDING_LEFT       /* its process died: another makes the row when it starts, or within seconds
                        * when it runs */
};

struct books_pending {
    enum books_pending_state state;
    struct span process; /* "g1-3": its name and epoch */
    struct span exchange_id, request_id, trace_id, tenant;
    int64_t admitted_us;
};

/* Shows those whose request, exchange or trace id is `id`, until visit returns false. Who asks here
 * before feeding finds each either here or among the rows, or in both.
 * Errors: ERR_BAD_VALUE (a table cannot be read, see problem; all others were looked through). */
MUST_CHECK enum err books_pending(struct books *books, struct span id,
                                  bool (*visit)(void *owner, const struct books_pending *pending),
                                  void *owner, char *problem, size_t problem_size);

/* ---- invoices ---- */

enum invoice_line_kind { INVOICE_TOKENS, INVOICE_VOLUME, INVOICE_ADJUST, INVOICE_ROUNDING };

struct invoice_line {
    enum invoice_line_kind kind;
    struct span model; /* {NULL, 0}: none */
    struct span class; /* token class: "input" …; adjust: its reason */
    struct span tier;  /* {NULL, 0}: standard */
    int64_t price_from_us;
    int64_t above; /* the step of a bracket; 0: none */
    int64_t tokens;
    int64_t rate_pusd;     /* per token */
    money_sum exact_pusd;  /* tokens × rate */
    money_sum amount_pusd; /* rounded once, half to even, to the cent */
    struct span id;        /* adjust: the row's id; tokens: a stable id of the line */
    bool correction;       /* adjust: of what was invoiced before it was made */
    bool credit;           /* adjust: money given back for no row */
};

enum invoice_state {
    INVOICE_AHEAD,   /* the period has not begun */
    INVOICE_RUNNING, /* the period is not over */
    INVOICE_GRACE,   /* it is, but not by the grace: rows of it may still come */
    INVOICE_WAITING, /* it is by the grace, but something admitted in it has no row, or the ledger
                      * has not all rows */
    INVOICE_CLOSED
};

struct invoice {
    struct span tenant;
    struct period period;
    enum invoice_state state;
    int64_t closes_us; /* when the grace ends */
    struct invoice_line *lines;
    size_t line_count;
    money_sum exact_pusd; /* of all lines but rounding */
    money_sum total_pusd; /* whole cents: Σ amount_pusd, which is exact_pusd rounded once */
};

#define INVOICE_GRACE_US (INT64_C(86400) * 1000000)

/* When the grace of a period ends; INT64_MAX: never. */
static inline int64_t invoice_closes_us(const struct period *period)
{
    return period->until_us < INT64_MAX - INVOICE_GRACE_US ? period->until_us + INVOICE_GRACE_US
                                                           : INT64_MAX;
}

static inline bool invoice_is_closed(const struct invoice *invoice)
{
    return invoice->state == INVOICE_CLOSED;
}

/* The invoice of a tenant's period: a line for each model, class of token, tier, price and step
 * with tokens; a line for each volume discount and adjust; and, when the rounded lines do not sum
 * to the rounded sum, one line with the residue. now_us decides its state. Free with
 * books_invoice_free().
 * Errors: ERR_BAD_VALUE (a sum does not fit), ERR_INTERNAL, ERR_NO_MEMORY. */
MUST_CHECK enum err books_invoice(struct books *books, const struct config *config,
                                  struct span tenant, const struct period *period, int64_t now_us,
                                  struct invoice **out_invoice, char *problem, size_t problem_size);
void books_invoice_free(struct invoice *invoice);

/* Does an adjust correct what was invoiced before: was the month of its row, or the one that it
 * amends, closed when it was made? Months are those of the zone. */
bool invoice_row_corrects(const struct record *adjust, const struct zone *zone);

/* Does an adjust give money back for no row? */
bool invoice_row_credits(const struct record *adjust);

/* ---- corrections ---- */

struct books_adjust {
    struct span adjusts; /* row id "g1/7/123", or empty */
    struct span tenant;  /* needed when adjusts is empty; else the row's */
    bool void_row;       /* takes all back that the row charged, less what was taken back before */
    money_sum add_pusd;  /* else: this much more (negative: less) */
    int64_t admitted_us; /* when adjusts is empty: the moment it belongs to */
    bool amend;          /* may count in a month that is closed, or has not begun */
    struct span by, why;
};

struct books_adjusted {
    char id[128];        /* "g1/9/2" */
    char tenant[512];    /* whose, as it is */
    int64_t pusd;        /* what it adds */
    int64_t counts_us;   /* a moment of the tenant's month that it counts in */
    int64_t corrects_us; /* that of the corrected row, when its month is closed; else 0 */
    bool amends;         /* it changes a closed month's invoice */
};

/* Writes an adjust row into a file of its own epoch (open line, row, head) and feeds the ledger. A
 * month of the tenant's that ended more than the grace ago is closed: unless it is to be amended,
 * the correction of a row in it counts now, and a credit of its own is refused there, as it is in a
 * month that has not begun.
 * Errors: ERR_BAD_VALUE (no such row, nothing left to take back, the amount does
 * not fit 64 bits or takes back more than was charged), ERR_INTERNAL. */
MUST_CHECK enum err books_adjust(struct books *books, const struct config *config,
                                 const struct books_adjust *adjust, int64_t now_us,
                                 struct books_adjusted *out_adjusted, char *problem,
                                 size_t problem_size);

/* ---- another price for the past ---- */

struct books_rerate {
    struct span tenant, model;
    int64_t calls;
    int64_t differing; /* rows whose amount would differ */
    money_sum was_pusd, would_be_pusd;
    int64_t unpriced; /* rows whose model the new configuration does not have, or not then */
};

/* What the rows of a period would have cost at the prices of another configuration (each at its own
 * admission), by tenant and model; changes nothing. */
MUST_CHECK enum err books_rerate(struct books *books, const struct config *prices,
                                 const struct period *period, struct span tenant,
                                 bool (*visit)(void *owner, const struct books_rerate *line),
                                 void *owner, char *problem, size_t problem_size);

/* ---- audit ---- */

#define AUDIT_KEYS_MAX 32u

struct audit_options {
    /* Paths of public keys, or of folders of them: a journal whose key was replaced has several.
     * NULL ends them; none: signing.pub beside the configured key. */
    const char *public_keys[AUDIT_KEYS_MAX + 1];
    const char *anchors; /* path of a file of anchors; NULL: the configured one, if any */
    bool against_ledger;
};

enum audit_finding_kind {
    AUDIT_DAMAGED, /* a line that is not a row, or a row where none may be */
    AUDIT_CHAIN,   /* prev is not the hash of the line before; seq jumps or comes twice */
    AUDIT_HEAD,    /* a head's signature or place is wrong */
    AUDIT_MISSING, /* a file, or the end of one, that heads, opens or anchors know of */
    AUDIT_ANCHOR,  /* an anchor names a line that is another now, or its signature is wrong */
    AUDIT_PRICE,   /* a row's amount is not what its tokens and rates come to */
    AUDIT_TWICE,   /* two rows of one exchange */
    AUDIT_LEDGER,  /* the ledger has another row, more or fewer */
    AUDIT_NOTE     /* no fault: a torn end of a dead process, a file without a head yet … */
};

struct audit_finding {
    enum audit_finding_kind kind;
    const char *file; /* or NULL */
    uint64_t seq;     /* 0: none */
    int64_t offset;   /* byte of the line in its file; -1: none */
    const char *says;
};

/* A key that was given, and what it has signed. */
struct audit_signer {
    char key[17]; /* its id */
    uint64_t heads, anchors;
    int64_t newest_us; /* when it signed last, by its own words; 0: never */
};

struct audit_sums {
    uint64_t files, lines, calls, adjusts, heads, anchors, findings; /* notes are no findings */
    uint64_t rows_after_last_anchor; /* what a cut tail could hide */
    money_sum charged_pusd;
    struct audit_signer signers[AUDIT_KEYS_MAX];
    size_t signer_count;
};

/* Reads the whole journal and checks it. visit is called for each finding. Exit is the caller's:
 * findings > 0 means no. Errors: ERR_INTERNAL (cannot read), ERR_NO_MEMORY. */
MUST_CHECK enum err books_audit(struct books *books, const struct config *config,
                                const struct audit_options *options,
                                void (*visit)(void *owner, const struct audit_finding *finding),
                                void *owner, struct audit_sums *out_sums, char *problem,
                                size_t problem_size);

#endif
