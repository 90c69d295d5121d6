/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/parcel.c: see parcel.h.
 *
 * For:       head and body of one attempt, laid out for sending.
 * Called by: replica.c.
 * Knows not: sockets, answers. */
#include "gateway/parcel.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"
#include "gateway/buffer.h"
#include "gateway/multipart.h"
#include "gateway/translate.h"

#define PIECES_MAX (2 * ASK_SPLICES_MAX + 2)
#define DEPTH_ADDED 8 /* levels that a translation may add */

/* What is being laid out. */
struct packing {
    struct exchange *x;
    const struct config_model *model;
    const struct config_replica *replica;
    enum endpoint endpoint; /* as the replica sees it */
    const struct ask *ask;  /* of body */
    struct span body;
};

/* Room for the head of a request, whatever fields it gets. */
static size_t head_room(const struct packing *packing)
{
    const struct exchange *x = packing->x;
    const struct config_replica *replica = packing->replica;
    return 320 + replica->base_path.size + replica->host_header.size + replica->key.size +
           x->accept.size + MULTIPART_TYPE_BYTES + x->traceparent.size + x->tracestate.size +
           x->anthropic_version.size + x->anthropic_beta.size;
}

/* Method, path and fields as one text, behind the pieces. */
static void write_head(struct parcel *parcel, const struct packing *packing, size_t body_bytes)
{
    const struct exchange *x = packing->x;
    const struct endpoint_row *row = endpoint_row(packing->endpoint);
    struct span type = SPAN("application/json");
    char room[MULTIPART_TYPE_BYTES] UNINITIALIZED;
    struct text text;
    text_over(&text, (char *)(parcel->pieces + PIECES_MAX), head_room(packing));
    text_put(&text, SPAN("POST "));
    text_put(&text, packing->replica->base_path);
    text_put(&text, row->upstream);
    text_put(&text, SPAN(" HTTP/1.1\r\nhost: "));
    text_put(&text, packing->replica->host_header);
    /* A multipart body cannot be read without the boundary that stands in this field: it was read
     * by it before. */
    if (row->form == FORM_MULTIPART && !multipart_write_type(x->content_type, room, &type))
        type = SPAN("multipart/form-data");
    text_field(&text, SPAN("content-type: "), type);
    text_put(&text, SPAN("\r\ncontent-length: "));
    text_number(&text, (uint64_t)body_bytes);
    if (packing->replica->key.size)
        text_field(&text, SPAN("authorization: Bearer "), packing->replica->key);
    text_field(&text, SPAN("accept: "), x->accept.size ? x->accept : SPAN("*/*"));
    text_put(&text, SPAN("\r\nx-request-id: "));
    text_put(&text, (struct span){x->exchange_id, 32});
    if (x->attempts > 1) {
        text_put(&text, SPAN("-"));
        text_number(&text, x->attempts);
    }
    if (x->traceparent.size)
        text_field(&text, SPAN("traceparent: "), x->traceparent);
    if (x->traceparent.size && x->tracestate.size)
        text_field(&text, SPAN("tracestate: "), x->tracestate);
    if (x->anthropic_version.size && row->shape == SHAPE_ANTHROPIC)
        text_field(&text, SPAN("anthropic-version: "), x->anthropic_version);
    if (x->anthropic_beta.size && row->shape == SHAPE_ANTHROPIC)
        text_field(&text, SPAN("anthropic-beta: "), x->anthropic_beta);
    text_put(&text, SPAN("\r\n\r\n"));
    parcel->pieces[0] = (struct iovec){text.start, text_span(&text).size};
}

/* The tenant's own cache salt, mixed with a secret so that no tenant can meet another's KV blocks
 * by saying its salt. {NULL, 0}: the client sent none. */
static enum err mix_salt(const struct packing *packing, struct span *out_salt)
{
    struct exchange *x = packing->x;
    uint8_t digest[HASH_SHA256_BYTES];
    const struct ask_place place = packing->ask->cache_salt_place;
    *out_salt = (struct span){NULL, 0};
    if (place.size == 0)
        return OK;
    const size_t size = sizeof x->key->tenant->salt + place.size;
    char *both = arena_take(&x->arena, size);
    char *hex = arena_take(&x->arena, 2 * HASH_SHA256_BYTES + 1);
    if (both == NULL || hex == NULL)
        return ERR_NO_MEMORY;
    memcpy(both, x->key->tenant->salt, sizeof x->key->tenant->salt);
    memcpy(both + sizeof x->key->tenant->salt, packing->body.data + place.at, place.size);
    hash_sha256((struct span){both, size}, digest);
    hash_hex(digest, sizeof digest, hex);
    *out_salt = (struct span){hex, 2 * HASH_SHA256_BYTES};
    return OK;
}

/* Splices the body and lays out what is to be sent: the head, then the pieces. */
static enum err lay_out(struct parcel *parcel, const struct packing *packing)
{
    struct splice splices[ASK_SPLICES_MAX];
    struct span salt;
    uint32_t count;
    size_t body_bytes;
    enum err err = mix_salt(packing, &salt);
    if (err == OK)
        err =
            ask_splices(packing->ask, packing->body, packing->model->kind,
                        packing->model->upstream_model, salt, &packing->x->arena, splices, &count);
    if (err != OK)
        return err;
    if (parcel->pieces == NULL)
        parcel->pieces = malloc(PIECES_MAX * sizeof *parcel->pieces + head_room(packing));
    if (parcel->pieces == NULL)
        return ERR_NO_MEMORY;
    parcel->count =
        1 + (int)splice_pieces(packing->body, splices, count, parcel->pieces + 1, &body_bytes);
    parcel->at = 0;
    write_head(parcel, packing, body_bytes);
    parcel->to_send = parcel->pieces[0].iov_len + body_bytes;
    return OK;
}

/* The body as one of chat completions, in parcel->written; *out_ask says what lies where in it. A
 * schema lies a level or two deeper there, so the second reading is less strict about depth. What
 * the tenant may not send is not sent in another form either. */
static enum err translate(struct parcel *parcel, struct exchange *x, struct ask *out_ask,
                          struct ask_problem *out_problem)
{
    const uint32_t depth = (uint32_t)x->config->limits_json_depth;
    const struct ask_limits limits = {depth < SCAN_DEPTH_MAX - DEPTH_ADDED ? depth + DEPTH_ADDED
                                                                           : SCAN_DEPTH_MAX,
                                      x->config->limits_n};
    struct writer writer = writer_new((size_t)x->config->limits_body_bytes);
    enum err err = translate_ask(x->endpoint, (struct span){x->body.data, x->body.size}, depth,
                                 &writer, out_problem);
    if (err == OK)
        err = writer.err;
    body_free(&parcel->written);
    if (err == OK)
        err = body_adopt(&parcel->written, x->config, &writer.text);
    buffer_free(&writer.text);
    if (err != OK)
        return err;
    err = ask_read(ENDPOINT_CHAT, (struct span){parcel->written.data, parcel->written.size},
                   &limits, &x->arena, out_ask, out_problem);
    if (err == OK && (out_ask->refused & ~x->key->tenant->allow))
        err = ERR_FIELD_REFUSED;
    return err;
}

enum err parcel_pack(struct parcel *parcel, struct exchange *x, const struct config_model *model,
                     const struct config_replica *replica, struct ask_problem *out_problem)
{
    struct packing packing = {x,           model,   replica,
                              x->endpoint, &x->ask, (struct span){x->body.data, x->body.size}};
    struct ask translated;
    if (config_service(model, x->endpoint) != SERVICE_CHAT)
        return lay_out(parcel, &packing);
    const enum err err = translate(parcel, x, &translated, out_problem);
    if (err != OK)
        return err;
    packing.endpoint = ENDPOINT_CHAT;
    packing.ask = &translated;
    packing.body = (struct span){parcel->written.data, parcel->written.size};
    return lay_out(parcel, &packing);
}

void parcel_sent(struct parcel *parcel, size_t bytes)
{
    parcel->to_send -= bytes;
    while (bytes && parcel->at < parcel->count) {
        struct iovec *piece = &parcel->pieces[parcel->at];
        const size_t step = bytes < piece->iov_len ? bytes : piece->iov_len;
        piece->iov_base = (char *)piece->iov_base + step;
        piece->iov_len -= step;
        bytes -= step;
        if (piece->iov_len == 0)
            parcel->at++;
    }
}

void parcel_free(struct parcel *parcel)
{
    free(parcel->pieces);
    parcel->pieces = NULL;
    body_free(&parcel->written);
}
