/* SPDX-License-Identifier: Apache-2.0 */
/* bench/load_tls.c: see load_tls.h.                                        (OpenSSL)
 *
 * For:       the library between two buffers: load_client.c receives and sends, once for many
 *            records.
 * Called by: load_client.c (also part of build/soak).
 * Knows not: sockets, HTTP. */
#include "bench/load_tls.h"

#include <openssl/err.h>

enum { READ_AHEAD_BYTES = 64 * 1024 };

static BIO_METHOD *between; /* made with the context */

/* ---- the library's side ---- */

static int read_some(BIO *bio, char *to, int room)
{
    struct tls_link *tls = BIO_get_data(bio);
    size_t count = tls->count < (size_t)room ? tls->count : (size_t)room;

    BIO_clear_retry_flags(bio);
    if (count == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(to, tls->bytes, count);
    tls->bytes += count;
    tls->count -= count;
    return (int)count;
}

static int write_some(BIO *bio, const char *bytes, int count)
{
    struct tls_link *tls = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    buffer_add(&tls->sealed, bytes, (size_t)count);
    return count;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

/* A ticket came: the newest is kept. */
static int keep_session(SSL *ssl, SSL_SESSION *session)
{
    struct tls_link *tls = SSL_get_app_data(ssl);

    SSL_SESSION_free(tls->session);
    tls->session = session;
    return 1;
}

SSL_CTX *tls_link_context(void)
{
    between = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "load");
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());

    if (between == NULL || context == NULL || BIO_meth_set_read(between, read_some) != 1 ||
        BIO_meth_set_write(between, write_some) != 1 || BIO_meth_set_ctrl(between, control) != 1)
        return NULL;
    if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1 ||
        SSL_CTX_set1_groups_list(context, "X25519:P-256") != 1)
        return NULL;
    SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD_BYTES);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    return context;
}

/* ---- connections ---- */

bool tls_link_open(struct tls_link *tls, SSL_CTX *context, bool use_h2, bool resume)
{
    static const unsigned char h2[] = {2, 'h', '2'};
    static const unsigned char h1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    BIO *bio = BIO_new(between);

    tls->ssl = SSL_new(context);
    tls->shaken = false;
    tls->use_h2 = use_h2;
    tls->count = 0;
    tls->sealed.count = 0;
    tls->sealed_at = 0;
    if (bio == NULL || tls->ssl == NULL) {
        BIO_free(bio);
        tls_link_close(tls);
        return false;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_app_data(tls->ssl, tls);
    SSL_set_connect_state(tls->ssl);
    return SSL_set_alpn_protos(tls->ssl, use_h2 ? h2 : h1, use_h2 ? sizeof h2 : sizeof h1) == 0 &&
           (!resume || tls->session == NULL || SSL_set_session(tls->ssl, tls->session) == 1);
}

bool tls_link_shake(struct tls_link *tls, const char **out_problem)
{
    const unsigned char *name;
    unsigned count;

    ERR_clear_error();
    int done = SSL_do_handshake(tls->ssl);
    if (done != 1) {
        if (SSL_get_error(tls->ssl, done) == SSL_ERROR_WANT_READ)
            return true;
        const char *reason = ERR_reason_error_string(ERR_peek_error());
        *out_problem = reason != NULL ? reason : "the handshake was refused";
        return false;
    }
    SSL_get0_alpn_selected(tls->ssl, &name, &count);
    tls->shaken = count > 0 && (count == 2) == tls->use_h2;
    if (!tls->shaken)
        *out_problem = "the server speaks another protocol";
    return tls->shaken;
}

bool tls_link_resumed(const struct tls_link *tls)
{
    return SSL_session_reused(tls->ssl) == 1;
}

void tls_link_arrive(struct tls_link *tls, const char *bytes, size_t count)
{
    tls->bytes = bytes;
    tls->count = count;
}

size_t tls_link_read(struct tls_link *tls, char *to, size_t room, bool *out_ok)
{
    size_t filled = 0;
    size_t count;

    *out_ok = true;
    ERR_clear_error();
    while (filled < room) {
        if (SSL_read_ex(tls->ssl, to + filled, room - filled, &count) != 1) {
            int error = SSL_get_error(tls->ssl, 0);
            *out_ok = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_ZERO_RETURN;
            break;
        }
        filled += count;
    }
    return filled;
}

bool tls_link_seal(struct tls_link *tls, const char *bytes, size_t count)
{
    size_t written;

    ERR_clear_error();
    return count == 0 || (SSL_write_ex(tls->ssl, bytes, count, &written) == 1 && written == count);
}

void tls_link_close(struct tls_link *tls)
{
    if (tls->ssl == NULL)
        return;
    ERR_clear_error();
    if (tls->shaken)
        (void)SSL_shutdown(tls->ssl);
    /* Else the library takes the session for one that must not be resumed. */
    SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(tls->ssl);
    tls->ssl = NULL;
}

void tls_link_fini(struct tls_link *tls)
{
    tls_link_close(tls);
    SSL_SESSION_free(tls->session);
    tls->session = NULL;
    buffer_fini(&tls->sealed);
}
