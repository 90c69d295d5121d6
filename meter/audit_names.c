/* SPDX-License-Identifier: Apache-2.0 */
/* meter/audit_names.c: who names which line of the journal.
 *
 * For:       the `before` of open lines and the anchors: each line that they name must be there
 *            with the hash that they say; and how far anchors reach.
 * Called by: audit.c.
 * Knows not: amounts, the ledger. */
#include "meter/audit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIGNATURE_MEMBER ",\"signature\":\""

/* What an object says of a line: an entry of `before`, or an anchor. */
struct said {
    char file[NAME_MAX + 1];
    int64_t seq;
    struct span hash;
    struct span key, signature; /* of anchors */
    int64_t at_us;              /* likewise */
};

/* ---- reading ---- */

static bool take_member(void *owner, struct span name, struct span value)
{
    struct said *said = owner;

    if (span_equal(name, SPAN("file")))
        (void)record_text(value, said->file, sizeof(said->file));
    else if ((span_equal(name, SPAN("seq")) && !span_to_int64(value, &said->seq)) ||
             (span_equal(name, SPAN("at_us")) && !span_to_int64(value, &said->at_us)))
        return false;
    else if (span_equal(name, SPAN("sha256")))
        said->hash = value;
    else if (span_equal(name, SPAN("key")))
        said->key = value;
    else if (span_equal(name, SPAN("signature")))
        said->signature = value;
    return true;
}

static bool is_hash(struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (strchr("0123456789abcdef", text.data[i]) == NULL)
            return false;
    }
    return text.size == CHAIN_HASH_BYTES - 1;
}

static bool read_said(struct span object, struct said *out_said)
{
    *out_said = (struct said){.seq = 0};
    return record_members(object, take_member, out_said) && out_said->file[0] != '\0' &&
           out_said->seq > 0 && is_hash(out_said->hash);
}

/* What an anchor's signature covers; empty when the signature is not its last member. */
static struct span signed_part(struct span line, const struct said *anchor)
{
    const size_t size = sizeof(SIGNATURE_MEMBER) - 1;
    const size_t at =
        anchor->signature.data == NULL ? 0 : (size_t)(anchor->signature.data - line.data);

    if (at < size || memcmp(line.data + at - size, SIGNATURE_MEMBER, size) != 0 ||
        line.size - at != anchor->signature.size + 2)
        return (struct span){NULL, 0};
    return (struct span){line.data, at - size};
}

/* The open line of a piece. false: it has none that can be read. */
static bool read_open(struct audit *audit, struct audit_piece *piece, struct lines *lines,
                      struct record *out_record)
{
    struct span line = piece->open;
    char problem[256];

    if (!piece->retired && lines_open(audit->directory_fd, piece->file.name, 0, lines) != OK &&
        audit_retire(audit, piece))
        line = piece->open;
    if (!piece->retired && (lines->data == NULL || lines_next(lines, &line) != LINE_WHOLE))
        return false;
    return record_read(line, out_record, problem, sizeof(problem)) == OK &&
           out_record->kind == RECORD_OPEN;
}

/* ---- is the list of files whole? ---- */

struct asking {
    const struct audit *audit;
    bool more;
};

static bool ask_said(void *owner, struct span object)
{
    struct asking *asking = owner;
    struct said said;

    if (read_said(object, &said) && audit_piece_named(asking->audit, said.file) == AUDIT_NO_PIECE &&
        strchr(said.file, '/') == NULL &&
        faccessat(asking->audit->directory_fd, said.file, F_OK, 0) == 0)
        asking->more = true;
    return !asking->more;
}

bool audit_names_more(struct audit *audit)
{
    struct asking asking = {.audit = audit};
    struct span line;

    for (size_t i = 0; i < audit->piece_count && !asking.more; i++) {
        struct lines lines = {0};
        struct record record;
        if (read_open(audit, &audit->pieces[i], &lines, &record))
            (void)record_items(record.before, ask_said, &asking);
        lines_close(&lines);
    }
    audit->anchors.at = 0;
    while (audit->anchors.data != NULL && !asking.more &&
           lines_next(&audit->anchors, &line) == LINE_WHOLE)
        (void)ask_said(&asking, line);
    return asking.more;
}

/* ---- taking in ---- */

/* Where a naming stands, for who reads the finding. */
static void print_source(const struct audit *audit, uint32_t from, int64_t offset, char *out,
                         size_t out_bytes)
{
    if (from == AUDIT_NO_PIECE)
        (void)snprintf(out, out_bytes, "the anchor at byte %" PRId64, offset);
    else
        (void)snprintf(out, out_bytes, "the open line of %s", audit->pieces[from].file.name);
}

static void take_said(struct audit *audit, const struct said *said, uint32_t from, int64_t offset)
{
    const uint32_t piece = audit_piece_named(audit, said->file);
    struct audit_naming *naming;

    if (piece == AUDIT_NO_PIECE) {
        char source[NAME_MAX + 64];
        print_source(audit, from, offset, source, sizeof(source));
        audit_tell(audit, AUDIT_MISSING, said->file, (uint64_t)said->seq, -1,
                   "the file is not there; %s names its line %" PRId64, source, said->seq);
        return;
    }
    if (!audit_room(audit, &audit->namings, &audit->naming_room, audit->naming_count,
                    sizeof(*naming)))
        return;
    naming = &audit->namings[audit->naming_count++];
    *naming = (struct audit_naming){
        .piece = piece, .from = from, .seq = (uint64_t)said->seq, .from_offset = offset};
    memcpy(naming->hash, said->hash.data, said->hash.size);
}

struct taking {
    struct audit *audit;
    uint32_t from;
};

static bool take_before(void *owner, struct span object)
{
    const struct taking *taking = owner;
    struct audit *audit = taking->audit;
    struct said said;

    if (read_said(object, &said))
        take_said(audit, &said, taking->from, -1);
    else
        audit_tell(audit, AUDIT_DAMAGED, audit->pieces[taking->from].file.name,
                   audit->pieces[taking->from].file.first_seq, 0,
                   "an entry of before names no line of a file");
    return audit->err == OK;
}

static void take_anchor(struct audit *audit, struct span line, int64_t offset)
{
    struct keyring_key *by;
    char ours[KEYRING_TEXT_BYTES];
    struct said said;
    struct span covered;

    if (!read_said(line, &said)) {
        audit_tell(audit, AUDIT_ANCHOR, audit->anchors_path, 0, offset, "not an anchor");
        return;
    }
    covered = signed_part(line, &said);
    by = keyring_find(&audit->keys, said.key);
    if (by == NULL) {
        audit_tell(audit, AUDIT_ANCHOR, audit->anchors_path, (uint64_t)said.seq, offset,
                   "the anchor of %s is signed by another key, and not by %s", said.file,
                   keyring_print(&audit->keys, ours));
    } else if (covered.size == 0 || !verify_text(by->key, covered, said.signature)) {
        audit_tell(audit, AUDIT_ANCHOR, audit->anchors_path, (uint64_t)said.seq, offset,
                   "the signature of the anchor of %s is not good", said.file);
    } else {
        audit->sums.anchors++;
        by->signer.anchors++;
        if (said.at_us > by->signer.newest_us)
            by->signer.newest_us = said.at_us;
        take_said(audit, &said, AUDIT_NO_PIECE, offset);
    }
}

static void take_anchors(struct audit *audit)
{
    enum line_state state = LINE_END;
    struct span line;

    audit->anchors.at = 0;
    while (audit->anchors.data != NULL && audit->err == OK) {
        const int64_t offset = (int64_t)audit->anchors.at;
        state = lines_next(&audit->anchors, &line);
        if (state != LINE_WHOLE)
            break;
        take_anchor(audit, line, offset);
    }
    if (state == LINE_TORN)
        audit_tell(audit, AUDIT_NOTE, audit->anchors_path, 0, (int64_t)audit->anchors.at,
                   "the last anchor is not whole: it is being written");
}

/* ---- how far anchors reach ---- */

static struct audit_epoch *epoch_of_piece(const struct audit *audit, uint32_t piece)
{
    const struct journal_file *file = &audit->pieces[piece].file;

    return audit_epoch_of(audit, file->gateway, file->epoch);
}

/* Does this naming itself stand where nobody could change it unseen? */
static bool is_protected(const struct audit *audit, const struct audit_naming *naming)
{
    return naming->from == AUDIT_NO_PIECE || audit->pieces[naming->from].file.first_seq <=
                                                 epoch_of_piece(audit, naming->from)->protected_seq;
}

/* An anchor protects the lines before it, open lines among them, and so what these name. */
static void reach(struct audit *audit)
{
    bool changed;

    do {
        changed = false;
        for (size_t i = 0; i < audit->naming_count; i++) {
            const struct audit_naming *naming = &audit->namings[i];
            struct audit_epoch *epoch = epoch_of_piece(audit, naming->piece);
            if (naming->seq > epoch->protected_seq && is_protected(audit, naming)) {
                epoch->protected_seq = naming->seq;
                changed = true;
            }
        }
    } while (changed);
}

static int by_line(const void *left, const void *right)
{
    const struct audit_naming *a = left;
    const struct audit_naming *b = right;

    if (a->piece != b->piece)
        return a->piece < b->piece ? -1 : 1;
    return a->seq == b->seq ? 0 : a->seq < b->seq ? -1 : 1;
}

void audit_name(struct audit *audit)
{
    for (size_t i = 0; i < audit->piece_count && audit->err == OK; i++) {
        struct taking taking = {.audit = audit, .from = (uint32_t)i};
        struct lines lines = {0};
        struct record record;
        if (read_open(audit, &audit->pieces[i], &lines, &record) &&
            !record_items(record.before, take_before, &taking))
            audit_tell(audit, AUDIT_DAMAGED, audit->pieces[i].file.name, record.seq, 0,
                       "before is not a list");
        lines_close(&lines);
    }
    take_anchors(audit);
    if (audit->naming_count > 0)
        qsort(audit->namings, audit->naming_count, sizeof(*audit->namings), by_line);
    reach(audit);
}

/* ---- what was read against what is named ---- */

/* The first naming of a line or of one behind it. */
static size_t find_line(const struct audit *audit, uint32_t piece, uint64_t seq)
{
    const struct audit_naming wanted = {.piece = piece, .seq = seq};
    size_t low = 0, high = audit->naming_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (by_line(&audit->namings[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void audit_met(struct audit *audit, uint32_t piece, uint64_t seq, const char *hash)
{
    for (size_t i = find_line(audit, piece, seq);
         i < audit->naming_count && audit->namings[i].piece == piece &&
         audit->namings[i].seq == seq;
         i++) {
        struct audit_naming *naming = &audit->namings[i];
        char source[NAME_MAX + 64];
        naming->met = true;
        if (strcmp(naming->hash, hash) == 0)
            continue;
        print_source(audit, naming->from, naming->from_offset, source, sizeof(source));
        audit_tell(audit, naming->from == AUDIT_NO_PIECE ? AUDIT_ANCHOR : AUDIT_CHAIN,
                   audit->at_file, seq, audit->at_offset, "the line is not the one that %s names",
                   source);
    }
}

/* Lines amid a file that retention deleted cannot be shown any more; its chain's ends can. */
static bool is_retired(const struct audit *audit, const struct audit_naming *naming)
{
    return audit->pieces[naming->piece].retired && naming->seq < audit->chain.seq;
}

void audit_unmet(struct audit *audit, uint32_t piece)
{
    const struct audit_naming *first = NULL;
    uint64_t count = 0;
    char source[NAME_MAX + 64];

    for (size_t i = find_line(audit, piece, 0);
         i < audit->naming_count && audit->namings[i].piece == piece; i++) {
        if (audit->namings[i].met || is_retired(audit, &audit->namings[i]))
            continue;
        if (count++ == 0)
            first = &audit->namings[i];
    }
    if (count == 0)
        return;
    print_source(audit, first->from, first->from_offset, source, sizeof(source));
    audit_tell(audit, AUDIT_MISSING, audit->pieces[piece].file.name, first->seq, -1,
               "line %" PRIu64 " is not there; %s names it (%" PRIu64 " such line%s in all)",
               first->seq, source, count, span_plural(count));
}
