/* SPDX-License-Identifier: Apache-2.0 */
/* config/tls.c: the tls maps of listeners and replicas into a draft.
 *
 * For:       which files hold certificates and keys, and whom to believe.
 * Called by: sections.c, models.c.
 * Knows not: what is in the files: the gateway reads them, and says what is wrong there. */
#include "config/sections.h"

/* A file beside the configuration when its path does not begin at the root. */
static struct span path_of(struct draft *draft, struct span path)
{
    const struct span file = draft->config->file;
    const char *slash = memrchr(file.data, '/', file.size);
    const size_t folder = slash == NULL ? 0 : (size_t)(slash - file.data) + 1;
    char *whole;

    if (path.data[0] == '/' || folder == 0)
        return section_keep(draft, path);
    whole = section_take(draft, folder + path.size + 1, 1);
    if (whole == NULL)
        return (struct span){NULL, 0};
    memcpy(whole, file.data, folder);
    memcpy(whole + folder, path.data, path.size);
    return (struct span){whole, folder + path.size};
}

static void path_at(const struct section *section, const char *key, struct span *out_path)
{
    struct span path = {NULL, 0};

    section_text_at(section, key, TEXT_ANY, TEXT_BYTES_MAX, &path);
    if (path.data != NULL)
        *out_path = path_of(section->draft, path);
}

bool sections_read_tls(const struct section *above, const char *rows, struct config_tls *out_tls)
{
    struct draft *draft = above->draft;
    struct place place;
    const struct node *node = section_find(above, "tls", &place);
    enum tristate verify = YES;
    struct section section;
    char key[200];

    *out_tls = (struct config_tls){.verify = true};
    if (node == NULL)
        return false;
    section = section_open(draft, node, place, rows);
    if (section.map == NULL)
        return false;
    place_print(&place, key, sizeof(key));
    out_tls->place = section_keep(draft, span_of(key));
    out_tls->line = place.line;
    path_at(&section, "certificate", &out_tls->certificate);
    out_tls->key = out_tls->certificate;
    path_at(&section, "key", &out_tls->key);
    path_at(&section, "ca", &out_tls->ca);
    path_at(&section, "client_ca", &out_tls->ca);
    section_text_at(&section, "name", TEXT_WORD, 253, &out_tls->name);
    section_tristate_at(&section, "verify", &verify);
    out_tls->verify = verify != NO;
    if (out_tls->key.data != NULL && out_tls->certificate.data == NULL)
        problems_add(draft->problems, &place, "expected a certificate for the key");
    return true;
}
