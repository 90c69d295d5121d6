/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tls.c: see tls.h; contexts are made in tls_context.c.
 *
 * For:       sessions: what io.c receives is opened, what it sends is sealed.
 * Called by: io.c (bytes), conn.c and link.c (handshakes).
 * Knows not: HTTP, certificates' files.
 *
 * Between the library and the socket stands a BIO of ours. Its read half asks the socket only when
 * an edge has told of bytes; with read-ahead one recv brings a record's head and its body. Its
 * write half gathers records in the worker's scratch; each function below ends with flush(), which
 * sends them at once and keeps what the socket does not take. */
#include "gateway/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "gateway/buffer.h"
#include "gateway/tls_context.h"

#define RECORD_BYTES 16384u
#define RECORD_EXTRA_BYTES 256u /* around a record, at most; RFC 8446 section 5.2 */
#define RECORDS_TOGETHER 4u
/* Control records of the peer (key updates, renegotiations refused) are answered, too: one that
 * makes us say more than this and takes none of it is given up. */
#define UNSENT_BYTES_MAX (2 * sizeof(((struct tls_scratch *)NULL)->sealed))
#define RECEIVES_AT_A_TIME 16 /* of one call: records without bytes for us hold nobody else up */
#define HOST_BYTES_MAX 256
#define COVERED_BYTES_MAX 64

struct tls_scratch {
    size_t size; /* of sealed: 0 between two calls */
    char sealed[RECORDS_TOGETHER * (RECORD_BYTES + RECORD_EXTRA_BYTES)];
    char plain[RECORD_BYTES]; /* small pieces that become one record */
};

/* Moves: shaking → open → (finished), or failed from anywhere. A socket that takes no more (mute)
 * may still have an answer to be read. */
struct tls {
    SSL *ssl;
    struct io *io;
    struct tls_context *context; /* one reference */
    struct tls_scratch *scratch; /* the worker's */
    uint64_t place;              /* a client's: what it is connected to */
    bool readable;               /* the socket: an edge came and was not read to its end */
    bool writable;               /* the socket: the last send took all */
    bool eof;                    /* the socket has no more */
    bool shaken;                 /* the handshake is made */
    bool failed;                 /* nothing more passes */
    bool mute;                   /* the socket refuses bytes */
    uint8_t receives;            /* recvs that this call may still make */
    bool ended;                  /* the peer's close_notify has come */
    bool finishing;              /* FIN when nothing is unsent */
    bool progress;               /* unsent bytes were taken since the last look */
    const char *problem;
    struct buffer unsent; /* sealed, not taken by the socket yet */
    size_t unsent_at;
    uint8_t covered_size; /* the last host that our certificate was found to cover */
    char covered[COVERED_BYTES_MAX];
};

/* ---- the socket's side ---- */

static int read_some(BIO *bio, char *out, int room)
{
    struct tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (!tls->readable || tls->receives == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    tls->receives--;
    const ssize_t got = io_receive(tls->io, out, (size_t)room);
    if (got > 0) {
        /* As in io.c: a short read has emptied the socket, and after a hang-up no edge comes. */
        if (got < room && !tls->io->hung_up)
            tls->readable = false;
        return (int)got;
    }
    tls->readable = false;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        BIO_set_retry_read(bio);
        return -1;
    }
    tls->eof = true;
    return 0;
}

static int write_some(BIO *bio, const char *bytes, int size)
{
    const struct tls *tls = BIO_get_data(bio);
    struct tls_scratch *scratch = tls->scratch;
    const size_t room = sizeof scratch->sealed - scratch->size;
    const size_t taken = (size_t)size < room ? (size_t)size : room;
    BIO_clear_retry_flags(bio);
    if (taken == 0) {
        BIO_set_retry_write(bio); /* a long handshake: goes on after flush() */
        return -1;
    }
    memcpy(scratch->sealed + scratch->size, bytes, taken);
    scratch->size += taken;
    return (int)taken;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    if (command == BIO_CTRL_FLUSH)
        return 1;
    if (command == BIO_CTRL_EOF)
        return ((const struct tls *)BIO_get_data(bio))->eof;
    return 0;
}

static BIO_METHOD *socket_method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tollgate io");
    if (socket_method == NULL)
        return;
    (void)BIO_meth_set_read(socket_method, read_some);
    (void)BIO_meth_set_write(socket_method, write_some);
    (void)BIO_meth_set_ctrl(socket_method, control);
}

static void fail(struct tls *tls, const char *problem)
{
    if (tls->problem == NULL)
        tls->problem = problem;
    tls->failed = true;
}

/* Sends bytes; returns how many the socket took. */
static size_t transmit(struct tls *tls, const char *bytes, size_t size)
{
    if (size == 0 || !tls->writable || tls->mute)
        return 0;
    const ssize_t sent = io_transmit(tls->io, bytes, size);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK)
        tls->mute = true;
    const size_t taken = sent > 0 ? (size_t)sent : 0;
    tls->writable = taken == size;
    return taken;
}

/* Sends what is sealed, the older first. */
static void flush(struct tls *tls)
{
    struct tls_scratch *scratch = tls->scratch;
    size_t taken = 0;
    if (tls->unsent.size) {
        const size_t sent =
            transmit(tls, tls->unsent.data + tls->unsent_at, tls->unsent.size - tls->unsent_at);
        tls->unsent_at += sent;
        tls->progress = tls->progress || sent > 0;
        if (tls->unsent_at == tls->unsent.size) {
            buffer_free(&tls->unsent);
            tls->unsent_at = 0;
        }
    }
    if (tls->unsent.size == 0)
        taken = transmit(tls, scratch->sealed, scratch->size);
    const struct span rest = {scratch->sealed + taken, scratch->size - taken};
    scratch->size = 0;
    if (tls->mute) {
        buffer_free(&tls->unsent);
        tls->unsent_at = 0;
    } else if (rest.size && !buffer_append(&tls->unsent, rest)) {
        fail(tls, "out of memory");
    }
    if (tls->unsent.size - tls->unsent_at > UNSENT_BYTES_MAX)
        fail(tls, "the peer asks and takes no answers");
    if (tls->unsent.size == 0 && tls->finishing && tls->io->fd >= 0) {
        tls->finishing = false;
        shutdown(tls->io->fd, SHUT_WR);
    }
}

static void set_writable(struct tls *tls)
{
    tls->io->writable = tls->failed || tls->mute || (tls->writable && tls->unsent.size == 0);
}

void tls_edge(struct io *io, uint32_t events)
{
    struct tls *tls = io->tls;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        tls->readable = true;
    if (events & EPOLLOUT)
        tls->writable = true;
    if (tls->unsent.size && tls->writable)
        flush(tls);
    set_writable(tls);
    if (tls->failed || tls->mute)
        io->readable = true; /* so that it is read, and found out */
}

/* ---- sessions ---- */

struct tls_scratch *tls_scratch_new(void)
{
    struct tls_scratch *scratch = malloc(sizeof *scratch);
    if (scratch)
        scratch->size = 0;
    return scratch;
}

void tls_scratch_free(struct tls_scratch *scratch)
{
    free(scratch);
}

static enum err open_session(struct io *io, struct tls_context *context,
                             struct tls_scratch *scratch)
{
    pthread_once(&method_once, make_method);
    struct tls *tls = calloc(1, sizeof *tls);
    BIO *bio = socket_method ? BIO_new(socket_method) : NULL;
    SSL *ssl = SSL_new(context->ssl);
    if (tls == NULL || bio == NULL || ssl == NULL) {
        free(tls);
        BIO_free(bio);
        SSL_free(ssl);
        return ERR_NO_MEMORY;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    tls->ssl = ssl;
    tls->io = io;
    tls->context = tls_context_get(context);
    tls->scratch = scratch;
    tls->readable = io->readable;
    tls->writable = io->writable;
    io->tls = tls;
    return OK;
}

enum err tls_accept(struct io *io, struct tls_context *context, struct tls_scratch *scratch)
{
    const enum err err = open_session(io, context, scratch);
    if (err == OK)
        SSL_set_accept_state(io->tls->ssl);
    return err;
}

/* Tries the last session of this replica again. */
static void resume(struct tls *tls)
{
    struct tls_context *context = tls->context;
    const struct kept_session *kept = &context->sessions[tls->place % SESSIONS_KEPT];
    pthread_mutex_lock(&context->lock);
    /* A copy: the library writes into what it resumes, and other workers resume it, too. */
    SSL_SESSION *session =
        kept->session && kept->place == tls->place ? SSL_SESSION_dup(kept->session) : NULL;
    pthread_mutex_unlock(&context->lock);
    if (session)
        (void)SSL_set_session(tls->ssl, session);
    SSL_SESSION_free(session);
}

enum err tls_connect(struct io *io, struct tls_context *context, struct tls_scratch *scratch,
                     uint64_t place)
{
    const enum err err = open_session(io, context, scratch);
    if (err != OK)
        return err;
    io->tls->place = place;
    SSL_set_app_data(io->tls->ssl, &io->tls->place);
    SSL_set_connect_state(io->tls->ssl);
    if (!context->name_is_address && SSL_set_tlsext_host_name(io->tls->ssl, context->name) != 1)
        return ERR_NO_MEMORY;
    resume(io->tls);
    return OK;
}

void tls_free(struct io *io)
{
    struct tls *tls = io->tls;
    if (tls == NULL)
        return;
    io->tls = NULL;
    /* Else the library takes the session for one that must not be resumed. */
    SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(tls->ssl);
    tls_context_put(tls->context);
    buffer_free(&tls->unsent);
    free(tls);
}

/* What the library's refusal means: IO_AGAIN, IO_END, or IO_FAILED. */
static enum io_result heed(struct tls *tls, int result, const char *fallback)
{
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return IO_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        tls->ended = true;
        return IO_END;
    default:
        break;
    }
    const long verified = SSL_get_verify_result(tls->ssl);
    const char *reason = tls_reason(fallback);
    fail(tls, verified == X509_V_OK ? reason : X509_verify_cert_error_string(verified));
    return IO_FAILED;
}

enum io_result tls_shake(struct io *io)
{
    struct tls *tls = io->tls;
    enum io_result result;
    do {
        tls->receives = RECEIVES_AT_A_TIME;
        ERR_clear_error();
        const int done = SSL_do_handshake(tls->ssl);
        result =
            done == 1 ? IO_DONE : heed(tls, done, "the connection was closed during the handshake");
        flush(tls);
        if (tls->failed)
            result = IO_FAILED;
        /* More of a long handshake waits to be sent. */
    } while (result == IO_AGAIN && SSL_want_write(tls->ssl) && tls->unsent.size == 0);
    tls->shaken = result == IO_DONE;
    io->readable = (result == IO_DONE && (tls->readable || SSL_has_pending(tls->ssl))) ||
                   (result == IO_AGAIN && tls->readable && tls->receives == 0);
    set_writable(tls);
    return result;
}

const char *tls_problem(const struct io *io)
{
    return io->tls->problem ? io->tls->problem : "the handshake failed";
}

bool tls_chose_h2(const struct io *io)
{
    const unsigned char *name;
    unsigned int size;
    SSL_get0_alpn_selected(io->tls->ssl, &name, &size);
    return size == 2 && memcmp(name, "h2", 2) == 0;
}

bool tls_chose(const struct io *io)
{
    const unsigned char *name;
    unsigned int size;
    SSL_get0_alpn_selected(io->tls->ssl, &name, &size);
    return size > 0;
}

bool tls_was_resumed(const struct io *io)
{
    return SSL_session_reused(io->tls->ssl) == 1;
}

/* The host of "host:port" or "[address]:port". */
static struct span host_of(struct span authority)
{
    if (authority.size && authority.data[0] == '[') {
        const char *end = memchr(authority.data, ']', authority.size);
        return end ? (struct span){authority.data + 1, (size_t)(end - authority.data) - 1}
                   : authority;
    }
    const char *colon = authority.size ? memchr(authority.data, ':', authority.size) : NULL;
    return colon ? (struct span){authority.data, (size_t)(colon - authority.data)} : authority;
}

bool tls_covers(struct io *io, struct span authority)
{
    struct tls *tls = io->tls;
    const struct span host = host_of(authority);
    char text[HOST_BYTES_MAX];
    if (span_equal_nocase(host, (struct span){tls->covered, tls->covered_size}))
        return host.size > 0;
    X509 *certificate = SSL_get_certificate(tls->ssl);
    if (certificate == NULL || !span_to_text(host, text, sizeof text))
        return false;
    const bool covers = X509_check_host(certificate, text, host.size, 0, NULL) == 1 ||
                        X509_check_ip_asc(certificate, text, 0) == 1;
    ERR_clear_error(); /* a name is no address */
    if (covers && host.size <= sizeof tls->covered) {
        memcpy(tls->covered, host.data, host.size);
        tls->covered_size = (uint8_t)host.size;
    }
    return covers;
}

/* ---- bytes ---- */

enum io_result tls_recv(struct io *io, char *out, size_t room, size_t *out_size)
{
    struct tls *tls = io->tls;
    enum io_result result = IO_DONE;
    size_t size = 0;
    *out_size = 0;
    io->readable = false;
    tls->receives = RECEIVES_AT_A_TIME;
    if (tls->ended || tls->failed)
        return tls->ended ? IO_END : IO_FAILED;
    /* One record comes at a time: all that are there are taken. */
    while (result == IO_DONE && *out_size < room) {
        ERR_clear_error();
        if (SSL_read_ex(tls->ssl, out + *out_size, room - *out_size, &size) == 1) {
            *out_size += size;
            if (!tls->readable && !SSL_has_pending(tls->ssl))
                break;
        } else {
            result = heed(tls, 0, "the connection was closed without notice");
        }
    }
    flush(tls); /* tickets, key updates, alerts */
    set_writable(tls);
    /* An end behind bytes is told by the next call. */
    io->readable = *out_size == room || (tls->readable && tls->receives == 0) ||
                   (*out_size && result != IO_DONE && result != IO_AGAIN);
    return *out_size ? IO_DONE : result;
}

/* Where the next record begins among the pieces. */
struct cursor {
    const struct iovec *pieces;
    int count;
    size_t at; /* in the first */
};

/* The bytes of the next record: as they lie when one piece fills it, else copied together. */
static struct span next_record(struct cursor *cursor, char *together)
{
    struct span record = {together, 0};
    while (cursor->count && record.size < RECORD_BYTES) {
        const char *from = (const char *)cursor->pieces->iov_base + cursor->at;
        const size_t left = cursor->pieces->iov_len - cursor->at;
        const size_t room = RECORD_BYTES - record.size;
        const size_t step = left < room ? left : room;
        if (record.size == 0 && (left >= RECORD_BYTES || cursor->count == 1))
            record.data = from;
        else if (step)
            memcpy(together + record.size, from, step);
        record.size += step;
        cursor->at += step;
        if (cursor->at == cursor->pieces->iov_len) {
            cursor->pieces++;
            cursor->count--;
            cursor->at = 0;
        }
    }
    return record;
}

enum io_result tls_send(struct io *io, const struct iovec *pieces, int count, size_t *out_size)
{
    struct tls *tls = io->tls;
    struct tls_scratch *scratch = tls->scratch;
    struct cursor cursor = {pieces, count, 0};
    *out_size = 0;
    while (!tls->failed && !tls->mute && tls->unsent.size == 0) {
        const struct span record = next_record(&cursor, scratch->plain);
        size_t written = 0;
        if (record.size == 0)
            break;
        ERR_clear_error();
        if (SSL_write_ex(tls->ssl, record.data, record.size, &written) != 1) {
            (void)heed(tls, 0, "the record could not be sealed");
            fail(tls, "the record could not be sealed"); /* it had all the room that it needs */
            break;
        }
        *out_size += written;
        if (sizeof scratch->sealed - scratch->size < RECORD_BYTES + RECORD_EXTRA_BYTES)
            flush(tls);
    }
    flush(tls);
    set_writable(tls);
    if (tls->failed || tls->mute)
        return IO_FAILED;
    return *out_size || tls->unsent.size == 0 ? IO_DONE : IO_AGAIN;
}

bool tls_has_unsent(const struct io *io)
{
    return io->tls->unsent.size > 0 && !io->tls->failed && !io->tls->mute;
}

bool tls_take_progress(struct io *io)
{
    const bool progress = io->tls->progress;
    io->tls->progress = false;
    return progress;
}

/* close_notify behind what is unsent. */
static void say_goodbye(struct tls *tls)
{
    if (!tls->shaken || tls->failed)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

void tls_bye(struct io *io)
{
    say_goodbye(io->tls);
    flush(io->tls);
}

void tls_finish(struct io *io, bool whole)
{
    if (whole)
        say_goodbye(io->tls);
    io->tls->finishing = true;
    flush(io->tls);
}
