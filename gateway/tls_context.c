/* SPDX-License-Identifier: Apache-2.0 */
/* gateway/tls_context.c: see tls_context.h; contexts of a configuration in tls.h.
 *
 * For:       files of certificates and keys into contexts, found again by a digest of all that
 *            makes them, so that a reload that changes nothing changes nothing.
 * Called by: main.c, cmd_check.c, server.c.
 * Knows not: sockets, HTTP.
 *
 * The settings are those of Mozilla's "intermediate" list (version 5.7): TLS 1.2 and 1.3, AEAD with
 * ECDHE, the client's order heeded. No compression, no renegotiation, no early data: what is
 * replayed would be billed twice. */
#include "gateway/tls_context.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "gateway/address.h"
#include "gateway/buffer.h"

#define CIPHERS_12                                                                                 \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"     \
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define CIPHERS_13 "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
#define GROUPS_NEW "X25519MLKEM768:X25519:P-256:P-384" /* for a library that has the first */
#define GROUPS "X25519:P-256:P-384"

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define TICKET_SECONDS 3600                       /* how long a session can be resumed */
#define TICKET_NEW_NS (TICKET_SECONDS * NS_PER_S) /* how long a key seals new tickets */
#define REPLICA_READ_BYTES 65536u /* a replica is trusted with more of a half-received record */

/* All contexts that live. */
static struct tls_context *contexts;
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

/* What a context is made from: the texts of the files, and the rest of the tls map. */
struct recipe {
    const struct config *config;
    const struct config_tls *tls;
    bool server;
    struct buffer certificate, key, ca;
    struct config_problems *problems;
    enum err err;
};

const char *tls_reason(const char *fallback)
{
    const unsigned long error = ERR_peek_last_error();
    const char *reason = error ? ERR_reason_error_string(error) : NULL;
    ERR_clear_error();
    return reason ? reason : fallback;
}

/* ---- problems ---- */

/* One of the configuration's: of a file that a key names. */
static void complain(struct recipe *recipe, const char *key, struct span path, const char *format,
                     ...) PRINTF_LIKE(4, 5);

static void complain(struct recipe *recipe, const char *key, struct span path, const char *format,
                     ...)
{
    const struct config_tls *tls = recipe->tls;
    char place[256], what[1024], reason[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    ERR_clear_error();
    (void)snprintf(place, sizeof place, "%.*s.%s", (int)tls->place.size, tls->place.data, key);
    (void)snprintf(what, sizeof what, "%.*s: %s", (int)path.size, path.data, reason);
    recipe->err =
        config_problems_add(recipe->problems, recipe->config, span_of(place), tls->line, what) == OK
            ? ERR_BAD_VALUE
            : ERR_NO_MEMORY;
}

static const char *ca_key(const struct recipe *recipe)
{
    return recipe->server ? "client_ca" : "ca";
}

/* ---- files ---- */

/* The whole of a file behind what text holds. Returns 0 or errno. */
static int read_file(struct span path, struct buffer *text)
{
    char chunk[16384];
    char name[4096];
    ssize_t got;
    int problem = 0;
    if (!span_to_text(path, name, sizeof name))
        return ENAMETOOLONG;
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    while ((got = read(fd, chunk, sizeof chunk)) != 0 && problem == 0) {
        if (got < 0)
            problem = errno == EINTR ? 0 : errno;
        else if (text->size + (size_t)got > FILE_BYTES_MAX)
            problem = EFBIG;
        else if (!buffer_append(text, (struct span){chunk, (size_t)got}))
            problem = ENOMEM;
    }
    close(fd);
    explicit_bzero(chunk, sizeof chunk);
    return problem;
}

static void read_part(struct recipe *recipe, const char *key, struct span path, struct buffer *text)
{
    if (path.data == NULL || recipe->err != OK)
        return;
    const int problem = read_file(path, text);
    if (problem)
        complain(recipe, key, path, "cannot be read: %s", strerrordesc_np(problem));
}

static void free_recipe(struct recipe *recipe)
{
    if (recipe->key.data)
        explicit_bzero(recipe->key.data, recipe->key.size);
    if (recipe->certificate.data) /* the key may stand in the same file */
        explicit_bzero(recipe->certificate.data, recipe->certificate.size);
    buffer_free(&recipe->certificate);
    buffer_free(&recipe->key);
    buffer_free(&recipe->ca);
}

/* All that makes the context, told apart by sizes. false without memory. */
static bool digest_recipe(const struct recipe *recipe, uint8_t out[HASH_SHA256_BYTES])
{
    const struct config_tls *tls = recipe->tls;
    const struct span parts[] = {
        recipe->server ? SPAN("server")
        : tls->verify  ? SPAN("verify")
                       : SPAN("trust"),
        recipe->server ? SPAN("") : tls->name,
        {recipe->certificate.data, recipe->certificate.size},
        {recipe->key.data, recipe->key.size},
        {recipe->ca.data, recipe->ca.size},
    };
    struct buffer whole = {NULL, 0, 0};
    bool fits = true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && fits; i++)
        fits = buffer_append(&whole,
                             (struct span){(const char *)&parts[i].size, sizeof parts[i].size}) &&
               buffer_append(&whole, parts[i]);
    if (fits)
        hash_sha256((struct span){whole.data, whole.size}, out);
    if (whole.data)
        explicit_bzero(whole.data, whole.size);
    buffer_free(&whole);
    return fits;
}

/* ---- certificates and keys ---- */

/* A key with a passphrase cannot be opened: nobody is there to type it. */
static int no_passphrase(char *out, int room, int writing, void *argument)
{
    (void)out, (void)room, (void)writing, (void)argument;
    return -1;
}

static BIO *bio_over(const struct buffer *text)
{
    return BIO_new_mem_buf(text->data ? text->data : "", (int)text->size);
}

/* Our certificate, and those behind it up to its authority. */
static void use_certificate(struct recipe *recipe, SSL_CTX *ssl)
{
    const struct span path = recipe->tls->certificate;
    BIO *text = bio_over(&recipe->certificate);
    X509 *certificate = text ? PEM_read_bio_X509_AUX(text, NULL, no_passphrase, NULL) : NULL;
    if (certificate == NULL)
        complain(recipe, "certificate", path, "has no certificate in PEM form: %s",
                 tls_reason("it is empty"));
    else if (SSL_CTX_use_certificate(ssl, certificate) != 1)
        complain(recipe, "certificate", path, "cannot be used: %s", tls_reason("refused"));
    else if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        log_event(LOG_WARN, "certificate_expired", "%.*s", (int)path.size, path.data);
    X509_free(certificate);
    while (recipe->err == OK && (certificate = PEM_read_bio_X509(text, NULL, no_passphrase, NULL)))
        if (SSL_CTX_add0_chain_cert(ssl, certificate) != 1) {
            X509_free(certificate);
            complain(recipe, "certificate", path, "has a chain that cannot be used: %s",
                     tls_reason("refused"));
        }
    ERR_clear_error(); /* the end of the file is told as an error */
    BIO_free(text);
}

static void use_key(struct recipe *recipe, SSL_CTX *ssl)
{
    const struct span path = recipe->tls->key;
    BIO *text = bio_over(&recipe->key);
    EVP_PKEY *key = text ? PEM_read_bio_PrivateKey(text, NULL, no_passphrase, NULL) : NULL;
    if (key == NULL)
        complain(recipe, "key", path, "has no private key in PEM form without a passphrase: %s",
                 tls_reason("it is empty"));
    else if (SSL_CTX_use_PrivateKey(ssl, key) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        complain(recipe, "key", path, "is not the key of the certificate: %s",
                 tls_reason("refused"));
    EVP_PKEY_free(key);
    BIO_free(text);
}

/* The authorities of a file; a listener also names them to its clients. */
static void use_ca(struct recipe *recipe, SSL_CTX *ssl)
{
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    BIO *text = bio_over(&recipe->ca);
    X509 *certificate;
    uint32_t count = 0;
    while (text && (certificate = PEM_read_bio_X509_AUX(text, NULL, no_passphrase, NULL))) {
        const bool added = X509_STORE_add_cert(store, certificate) == 1 &&
                           (!recipe->server || SSL_CTX_add_client_CA(ssl, certificate) == 1);
        count += added;
        X509_free(certificate);
    }
    if (count == 0)
        complain(recipe, ca_key(recipe), recipe->tls->ca, "has no certificate in PEM form: %s",
                 tls_reason("it is empty"));
    ERR_clear_error();
    BIO_free(text);
}

/* ---- tickets ---- */

static bool make_ticket_key(struct ticket_key *key, uint64_t now_ns)
{
    key->made_ns = now_ns;
    return RAND_bytes(key->name, sizeof key->name) == 1 &&
           RAND_priv_bytes(key->cipher, sizeof key->cipher) == 1 &&
           RAND_priv_bytes(key->digest, sizeof key->digest) == 1;
}

/* The key to seal a new ticket with; or the one that sealed a ticket, NULL when it is too old.
 * Under the context's lock. */
static struct ticket_key *key_to_seal(struct tls_context *context, uint64_t now_ns)
{
    struct ticket_key *newest = &context->tickets[0];
    if (newest->made_ns && now_ns - newest->made_ns < TICKET_NEW_NS)
        return newest;
    context->tickets[1] = *newest;
    return make_ticket_key(newest, now_ns) ? newest : NULL;
}

static struct ticket_key *key_to_open(struct tls_context *context, const uint8_t *name,
                                      uint64_t now_ns)
{
    for (size_t i = 0; i < 2; i++) {
        struct ticket_key *key = &context->tickets[i];
        if (key->made_ns && now_ns - key->made_ns < 2 * TICKET_NEW_NS &&
            memcmp(key->name, name, sizeof key->name) == 0)
            return key;
    }
    return NULL;
}

/* The library asks for the key of a ticket. Returns as it wants: 1 done, 2 done but seal a new one,
 * 0 not known, -1 failed. */
static int ticket_key(SSL *session, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                      EVP_MAC_CTX *mac, int sealing)
{
    struct tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(session));
    const uint64_t now_ns = clock_now_ns();
    struct ticket_key key = {.made_ns = 0};
    int result = -1;
    pthread_mutex_lock(&context->lock);
    const struct ticket_key *found =
        sealing ? key_to_seal(context, now_ns) : key_to_open(context, name, now_ns);
    const bool newest = found == &context->tickets[0];
    if (found)
        key = *found;
    pthread_mutex_unlock(&context->lock);
    if (found == NULL)
        return sealing ? -1 : 0;
    if (sealing) {
        memcpy(name, key.name, sizeof key.name);
        if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1)
            goto out;
    }
    char digest[] = "sha256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_octet_string("key", key.digest, sizeof key.digest),
        OSSL_PARAM_construct_utf8_string("digest", digest, 0),
        OSSL_PARAM_construct_end(),
    };
    /* A client uses a ticket of TLS 1.3 once (RFC 8446 appendix C.4), so it gets another each time.
     */
    const bool good = newest && SSL_version(session) < TLS1_3_VERSION;
    if (EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv, sealing) == 1 &&
        EVP_MAC_CTX_set_params(mac, parameters) == 1)
        result = sealing || good ? 1 : 2;
out:
    OPENSSL_cleanse(&key, sizeof key);
    return result;
}

/* ---- contexts ---- */

/* Which version of HTTP: ours first. A client that offers neither is told so and leaves. */
static int choose_protocol(SSL *session, const unsigned char **out, unsigned char *out_size,
                           const unsigned char *offered, unsigned int offered_size, void *argument)
{
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    (void)session, (void)argument;
    return SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_size, ours, sizeof ours - 1,
                                 offered, offered_size) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* A replica gave a session that can be resumed. */
static int keep_session(SSL *session, SSL_SESSION *kept)
{
    struct tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(session));
    const uint64_t *place = SSL_get_app_data(session); /* tls_connect() has put it there */
    struct kept_session *slot = &context->sessions[*place % SESSIONS_KEPT];
    pthread_mutex_lock(&context->lock);
    SSL_SESSION *before = slot->session;
    *slot = (struct kept_session){*place, kept};
    pthread_mutex_unlock(&context->lock);
    SSL_SESSION_free(before);
    return 1; /* its reference is ours */
}

static bool set_common(SSL_CTX *ssl)
{
    SSL_CTX_set_options(ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    /* What is behind our certificate stands in its file: nothing is looked for at each handshake.
     */
    SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(ssl, 1);
    const bool groups = SSL_CTX_set1_groups_list(ssl, GROUPS_NEW) == 1 ||
                        SSL_CTX_set1_groups_list(ssl, GROUPS) == 1;
    ERR_clear_error();
    return groups && SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ssl, CIPHERS_12) == 1 &&
           SSL_CTX_set_ciphersuites(ssl, CIPHERS_13) == 1;
}

static void set_server(struct recipe *recipe, SSL_CTX *ssl)
{
    SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF); /* tickets are enough */
    SSL_CTX_set_timeout(ssl, TICKET_SECONDS);
    SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, ticket_key);
    /* Tickets are good for one context: each has keys of its own. The library wants a name, too. */
    (void)SSL_CTX_set_session_id_context(ssl, (const unsigned char *)"tollgate", 8);
    if (recipe->tls->ca.data == NULL)
        return;
    use_ca(recipe, ssl);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

static bool set_client(struct recipe *recipe, struct tls_context *context)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    SSL_CTX *ssl = context->ssl;
    X509_VERIFY_PARAM *parameters = SSL_CTX_get0_param(ssl);
    struct sockaddr_storage address;
    socklen_t size;
    if (!span_to_text(recipe->tls->name, context->name, sizeof context->name))
        return false;
    context->name_is_address = address_parse(recipe->tls->name, 0, &address, &size);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(ssl, keep_session);
    SSL_CTX_set_default_read_buffer_len(ssl, REPLICA_READ_BYTES);
    if (SSL_CTX_set_alpn_protos(ssl, protocols, sizeof protocols - 1) != 0)
        return false;
    if (!recipe->tls->verify)
        return true;
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    if (recipe->tls->ca.data)
        use_ca(recipe, ssl);
    else if (SSL_CTX_set_default_verify_paths(ssl) != 1)
        return false;
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return context->name_is_address
               ? X509_VERIFY_PARAM_set1_ip_asc(parameters, context->name) == 1
               : X509_VERIFY_PARAM_set1_host(parameters, context->name, 0) == 1;
}

static void free_context(struct tls_context *context)
{
    for (size_t i = 0; i < SESSIONS_KEPT; i++)
        SSL_SESSION_free(context->sessions[i].session);
    SSL_CTX_free(context->ssl);
    OPENSSL_cleanse(context->tickets, sizeof context->tickets);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

/* A new context; NULL: see recipe->err. */
static struct tls_context *make_context(struct recipe *recipe)
{
    struct tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        recipe->err = ERR_NO_MEMORY;
        return NULL;
    }
    context->references = 1;
    (void)pthread_mutex_init(&context->lock, NULL);
    context->ssl = SSL_CTX_new(recipe->server ? TLS_server_method() : TLS_client_method());
    if (context->ssl == NULL || !set_common(context->ssl))
        recipe->err = ERR_NO_MEMORY;
    if (recipe->err == OK)
        SSL_CTX_set_app_data(context->ssl, context);
    if (recipe->err == OK && recipe->server)
        set_server(recipe, context->ssl);
    else if (recipe->err == OK && !set_client(recipe, context) && recipe->err == OK)
        recipe->err = ERR_NO_MEMORY;
    if (recipe->err == OK && recipe->tls->certificate.data)
        use_certificate(recipe, context->ssl);
    if (recipe->err == OK && recipe->tls->certificate.data)
        use_key(recipe, context->ssl);
    if (recipe->err == OK)
        return context;
    ERR_clear_error();
    free_context(context);
    return NULL;
}

/* The context of a recipe: one that lives, or a new one. */
static struct tls_context *find_context(struct recipe *recipe)
{
    uint8_t digest[HASH_SHA256_BYTES];
    struct tls_context *context;
    if (!digest_recipe(recipe, digest)) {
        recipe->err = ERR_NO_MEMORY;
        return NULL;
    }
    pthread_mutex_lock(&contexts_lock);
    for (context = contexts; context; context = context->next)
        if (memcmp(context->digest, digest, sizeof digest) == 0)
            break;
    if (context) {
        context->references++;
    } else if ((context = make_context(recipe))) {
        memcpy(context->digest, digest, sizeof digest);
        context->next = contexts;
        contexts = context;
    }
    pthread_mutex_unlock(&contexts_lock);
    return context;
}

struct tls_context *tls_context_get(struct tls_context *context)
{
    if (context == NULL)
        return NULL;
    pthread_mutex_lock(&contexts_lock);
    context->references++;
    pthread_mutex_unlock(&contexts_lock);
    return context;
}

void tls_context_put(struct tls_context *context)
{
    if (context == NULL)
        return;
    pthread_mutex_lock(&contexts_lock);
    const bool last = --context->references == 0;
    if (last) {
        struct tls_context **link = &contexts;
        while (*link != context)
            link = &(*link)->next;
        *link = context->next;
    }
    pthread_mutex_unlock(&contexts_lock);
    if (last)
        free_context(context);
}

/* ---- of a configuration ---- */

static void release(struct config *config)
{
    for (uint32_t i = 0; i < config->listen_count; i++)
        tls_context_put(config->listen[i].context);
    for (uint32_t i = 0; i < config->model_count; i++)
        for (uint32_t k = 0; k < config->models[i].replica_count; k++)
            tls_context_put(config->models[i].replicas[k].context);
}

static enum err adopt(struct config *config, const struct config_tls *tls, bool server,
                      struct config_problems *problems, struct tls_context **out_context)
{
    struct recipe recipe = {
        .config = config, .tls = tls, .server = server, .problems = problems, .err = OK};
    read_part(&recipe, "certificate", tls->certificate, &recipe.certificate);
    read_part(&recipe, "key", tls->key, &recipe.key);
    read_part(&recipe, ca_key(&recipe), tls->ca, &recipe.ca);
    if (recipe.err == OK)
        *out_context = find_context(&recipe);
    free_recipe(&recipe);
    return recipe.err;
}

/* The worse of two. */
static enum err worse(enum err a, enum err b)
{
    return a == OK || b == ERR_NO_MEMORY ? b : a;
}

enum err tls_adopt(struct config *config, struct config_problems *problems)
{
    enum err err = OK;
    config->released = release;
    for (uint32_t i = 0; i < config->listen_count; i++) {
        struct config_listen *listen = &config->listen[i];
        if (listen->tls_present)
            err = worse(err, adopt(config, &listen->tls, true, problems, &listen->context));
    }
    for (uint32_t i = 0; i < config->model_count; i++) {
        for (uint32_t k = 0; k < config->models[i].replica_count; k++) {
            struct config_replica *replica = &config->models[i].replicas[k];
            if (replica->https)
                err = worse(err, adopt(config, &replica->tls, false, problems, &replica->context));
        }
    }
    return err;
}
