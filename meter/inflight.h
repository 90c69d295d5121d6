/* SPDX-License-Identifier: Apache-2.0 */
/* meter/inflight.h: the table of what is under way, which outlives the process.
 *
 * For:       one slot of 1 KiB per exchange in shared memory (a file, or anonymous): whatever
 *            instant the process is killed at, each slot still says what had been delivered.
 * Called by: meter.c; row.c and the tests read slots.
 * Knows not: rows, files' names, prices beyond their numbers.
 *
 *   from   to     made by          what is guaranteed then
 *   FREE   OPEN   inflight_open    the opening is whole; nothing was delivered
 *   OPEN   ENDED  inflight_end     everything is whole; the owner is through
 *   ENDED  FREE   inflight_free    its row is on disk
 *
 * A slot belongs to one exchange while OPEN, to the journal's writer once ENDED. */
#ifndef METER_INFLIGHT_H
#define METER_INFLIGHT_H

#include <stdatomic.h>

#include "meter/meter.h"

#define SLOT_BYTES 1024
#define SLOT_WASTES 2
#define SLOT_OPENING_BYTES METER_OPENING_BYTES
#define SLOT_ROUTE_BYTES 160
#define INFLIGHT_BOOK_ROWS 512u /* different prices in one process's life */

enum slot_state { SLOT_FREE, SLOT_OPEN, SLOT_ENDED };

/* Texts known at admission, in the order in which they lie in the slot; with most bytes of each. */
enum slot_opening_text {
    OPENING_EXCHANGE_ID,
    OPENING_TRACE_ID,
    OPENING_TENANT,
    OPENING_KEY,
    OPENING_CLASS,
    OPENING_REQUEST_ID,
    OPENING_MODEL_ASKED,
    OPENING_TAGS, /* whole, or not at all */
    OPENING_TEXTS
};

enum slot_route_text { ROUTE_MODEL, ROUTE_REPLICA, ROUTE_WHY, ROUTE_TEXTS };

/* An attempt that was not delivered; texts end at their first NUL or fill the field. */
struct slot_waste {
    char replica[24];
    char cause[16];
    struct usage usage;
};

/* Written by its exchange's worker alone while OPEN. */
struct slot {
    _Atomic uint32_t state;
    _Atomic uint32_t published;    /* running[published % 2] is the newest whole copy */
    _Atomic uint32_t route_writes; /* odd: the route is being written, nothing of it was sent yet */
    _Atomic uint32_t wastes;       /* how many of waste[] are whole */
    _Atomic uint32_t flags;        /* enum usage_flag */
    uint32_t price;                /* its row in the book + 1; 0: none (no attempt was made) */
    uint16_t opening_ends[OPENING_TEXTS]; /* where each text ends in opening_text */
    uint16_t route_ends[ROUTE_TEXTS];
    uint8_t endpoint;
    uint8_t stream;
    uint8_t tier;
    uint8_t outcome;  /* once ENDED, as all below marked so */
    uint8_t billable; /* ENDED */
    uint16_t status;  /* ENDED */
    uint32_t attempts;
    struct meter_running running[2];
    struct meter_guess guess; /* of the route: for what the replica does not say */
    int64_t admitted_us, bytes_in;
    int64_t queue_us, sent_us;
    int64_t held_pusd;
    int64_t first_token_us, ended_us, cost_pusd, unit_cost_pusd; /* ENDED */
    struct slot_waste waste[SLOT_WASTES];
    char opening_text[SLOT_OPENING_BYTES];
    char route_text[SLOT_ROUTE_BYTES];
};

_Static_assert(sizeof(struct slot) == SLOT_BYTES,
               "a slot is 1 KiB: the file's layout counts on it");

/* The first page of the file. Behind it lie the price book (INFLIGHT_BOOK_ROWS struct price, padded
 * to whole pages), then the slots. */
struct inflight_header {
    char magic[8]; /* "tollgate" */
    uint32_t version;
    uint32_t slot_bytes;
    uint32_t slots;
    uint32_t price_bytes; /* of one row of the book */
    uint64_t epoch;
    char gateway[64];           /* NUL-padded */
    _Atomic uint32_t book_rows; /* whole rows of the book */
    char boot[40];              /* of the machine, as its kernel names it; empty: not known */
};

#define INFLIGHT_HEADER_BYTES 4096
#define INFLIGHT_VERSION 3

_Static_assert(sizeof(struct inflight_header) <= INFLIGHT_HEADER_BYTES, "the header has one page");

/* The table in this process. Free slots form a stack, so that few pages are ever touched; its head
 * holds a count of changes beside the index, so that a head that came back is not mistaken. */
struct inflight {
    struct inflight_header *header; /* start of the mapping */
    struct price *book;
    struct slot *slots;
    uint32_t count;
    size_t mapped_bytes;
    uint32_t damaged; /* of a dead one's: slots that no process can have left so */
    bool other_boot;  /* of a dead one's: the machine has begun anew since, perhaps without power in
                       * between: each page is then as it was at some moment of that life */
    _Atomic uint32_t *next_free;             /* by index: index + 1 of the one below, 0: none */
    _Alignas(64) _Atomic uint64_t free_head; /* changes << 32 | index + 1 */
    _Alignas(64) _Atomic uint64_t opened;    /* in all */
};

/* Maps a table of slots: over file fd (sized and reserved on its disk here), or anonymous for -1.
 * fd stays the caller's. Errors: ERR_NO_MEMORY; ERR_INTERNAL (errno says what the disk said). */
MUST_CHECK enum err inflight_init(struct inflight *table, int fd, uint32_t slots,
                                  struct span gateway, uint64_t epoch);
void inflight_fini(struct inflight *table);

/* Maps the table that a dead process left, to read it alone. Slots of which not even the opening is
 * whole are FREE; so are those that no process can have left so, which are counted in damaged: all
 * that is read from the others is within its bounds, but tags may be any bytes. Errors:
 * ERR_BAD_VALUE (not a table, of another version, or cut short; *out_why says which, static),
 * ERR_NO_MEMORY. */
MUST_CHECK enum err inflight_open_dead(struct inflight *table, int fd, const char **out_why);

/* The row of a price in the book, written there when it is new: it outlives the process with the
 * slots that name it. One thread at a time. Errors: ERR_NO_MEMORY (the book is full). */
MUST_CHECK enum err inflight_book(struct inflight *table, const struct price *price,
                                  uint32_t *out_row);

/* How many rows the book has. Any thread. */
uint32_t inflight_booked(const struct inflight *table);

/* A free slot, opened; NULL when there is none. Any thread. */
MUST_CHECK struct slot *inflight_open(struct inflight *table, const struct meter_opening *opening);

/* The moves of an open slot; by its owner alone. */
void inflight_route(struct slot *slot, const struct meter_route *route);
void inflight_publish(struct slot *slot, const struct meter_running *running);
void inflight_waste(struct slot *slot, struct span replica, struct span cause,
                    const struct usage *usage);
void inflight_end(struct slot *slot, const struct meter_ending *ending, int64_t cost_pusd);

/* Gives ended slots back, in one go. Any thread. */
void inflight_free(struct inflight *table, const uint32_t *indexes, size_t count);

static inline uint32_t inflight_index(const struct inflight *table, const struct slot *slot)
{
    return (uint32_t)(slot - table->slots);
}

/* Readers, of slots that do not move: ended ones, or a dead process's. */
struct span inflight_opening_text(const struct slot *slot, enum slot_opening_text which);
struct span inflight_route_text(const struct slot *slot, enum slot_route_text which);
const struct meter_running *inflight_running(const struct slot *slot);

/* The price that a slot names; NULL: none, or not a row of this book. */
const struct price *inflight_price(const struct inflight *table, const struct slot *slot);

#endif
