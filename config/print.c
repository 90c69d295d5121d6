/* SPDX-License-Identifier: Apache-2.0 */
/* config/print.c: a snapshot as YAML text without its secrets.
 *
 * For:       /config on the admin listener: what holds now, defaults included.
 * Called by: gateway/admin.c.
 * Knows not: the file that the snapshot came from. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "config/base/api.h"
#include "config/base/log.h"
#include "config/base/zone.h"
#include "config/table.h"

#define REDACTED "***"

/* "name: "value"" with the value quoted as JSON, which YAML reads too. */
static void print_quoted(FILE *out, struct span text)
{
    char *escaped = malloc(6 * text.size + 1);

    (void)fputc('"', out);
    if (escaped != NULL)
        (void)fwrite(escaped, 1, log_escape(text, escaped, 6 * text.size), out);
    (void)fputc('"', out);
    free(escaped);
}

static void print_text(FILE *out, const char *before, struct span text, const char *after)
{
    (void)fputs(before, out);
    print_quoted(out, text);
    (void)fputs(after, out);
}

/* times = 10 to the power of places. */
static void print_decimal(FILE *out, const char *before, int64_t value, int64_t times, int places)
{
    (void)fprintf(out, "%s\"%" PRId64 ".%0*" PRId64 "\"", before, value / times, places,
                  value % times);
}

static void print_date(FILE *out, const char *before, int64_t us)
{
    const time_t seconds = (time_t)(us / 1000000);
    struct tm parts;
    char text[32] = "";

    if (gmtime_r(&seconds, &parts) != NULL)
        (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
    (void)fprintf(out, "%s%s", before, text);
}

static void print_tls(FILE *out, const struct config_tls *tls, const char *ca)
{
    bool first = true;
    const struct {
        const char *name;
        struct span text;
    } parts[] = {
        {"certificate", tls->certificate}, {"key", tls->key}, {ca, tls->ca}, {"name", tls->name}};

    (void)fputs(", tls: {", out);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].text.data == NULL)
            continue;
        (void)fprintf(out, "%s%s: ", first ? "" : ", ", parts[i].name);
        print_quoted(out, parts[i].text);
        first = false;
    }
    (void)fputs(tls->verify ? "}" : ", verify: false}", out);
}

static void print_listen(FILE *out, const struct config_listen *listen)
{
    print_text(out, "  - {address: ", listen->address, "");
    if (listen->socket_path.data != NULL)
        (void)fprintf(out, ", mode: \"%04o\"", listen->mode);
    if (listen->tls_present)
        print_tls(out, &listen->tls, "client_ca");
    (void)fputs("}\n", out);
}

static void print_process(FILE *out, const struct config *config)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};

    (void)fputs("listen:\n", out);
    for (uint32_t i = 0; i < config->listen_count; i++)
        print_listen(out, &config->listen[i]);
    if (config->admin_present) {
        print_text(out, "admin: {address: ", config->admin.address, "");
        (void)fputs(config->admin_token.data != NULL ? ", token: \"" REDACTED "\"}\n" : "}\n", out);
    }
    print_text(out, "gateway: ", config->gateway, "\n");
    (void)fprintf(out, "workers: %u\n", config->workers);
    if (config->cors_origin_count > 0) {
        (void)fputs("cors: {origins: [", out);
        for (uint32_t i = 0; i < config->cors_origin_count; i++)
            print_text(out, i > 0 ? ", " : "", config->cors_origins[i], "");
        (void)fputs("]}\n", out);
    }
    print_text(out, "log: {access: ", config->log_access, "");
    (void)fprintf(out, ", level: %s}\n", levels[config->log_level]);
    if (config->names_server_count > 0) {
        (void)fputs("names: {servers: [", out);
        for (uint32_t i = 0; i < config->names_server_count; i++)
            print_text(out, i > 0 ? ", " : "", config->names_servers[i], "");
        (void)fputs("]}\n", out);
    }
}

static void print_rates(FILE *out, const struct rates *rates)
{
    print_decimal(out, "input: ", rates->input, 1000000, 6);
    print_decimal(out, ", cached_input: ", rates->cached_input, 1000000, 6);
    print_decimal(out, ", cache_write: ", rates->cache_write, 1000000, 6);
    print_decimal(out, ", output: ", rates->output, 1000000, 6);
    print_decimal(out, ", reasoning: ", rates->reasoning, 1000000, 6);
}

static void print_brackets(FILE *out, const struct price *price)
{
    if (price->bracket_count == 0)
        return;
    (void)fprintf(out, ", bracket_mode: %s, bracket_from: %s, brackets: [",
                  price->bracket_marginal ? "marginal" : "whole_request",
                  price->bracket_inclusive ? "at" : "over");
    for (uint32_t i = 0; i < price->bracket_count; i++) {
        (void)fprintf(out, "%s{above: %" PRId64 ", ", i > 0 ? ", " : "", price->brackets[i].above);
        print_rates(out, &price->brackets[i].rates);
        (void)fputs("}", out);
    }
    (void)fputs("]", out);
}

static void print_volume(FILE *out, const struct price *price)
{
    if (price->volume_count == 0)
        return;
    (void)fprintf(out, ", volume_mode: %s, volume: [",
                  price->volume_marginal ? "marginal" : "whole");
    for (uint32_t i = 0; i < price->volume_count; i++) {
        (void)fprintf(out, "%s{above: %" PRId64, i > 0 ? ", " : "", price->volumes[i].above);
        print_decimal(out, ", factor: ", price->volumes[i].factor_ppm, PRICE_PPM, 6);
        (void)fputs("}", out);
    }
    (void)fputs("]", out);
}

static void print_tiers(FILE *out, const struct price *price)
{
    const char *before = ", tiers: {";

    for (enum service_tier tier = TIER_STANDARD + 1; tier < SERVICE_TIERS; tier++) {
        if (price->tier_ppm[tier] == PRICE_PPM)
            continue;
        (void)fprintf(out, "%s%s", before, service_tier_name(tier).data);
        print_decimal(out, ": ", price->tier_ppm[tier], PRICE_PPM, 6);
        before = ", ";
    }
    if (before[2] == '\0')
        (void)fputs("}", out);
}

static void print_price(FILE *out, const struct price *price)
{
    print_date(out, "      - {from: ", price->from_us);
    if (price->until_us != INT64_MAX)
        print_date(out, ", until: ", price->until_us);
    (void)fputs(", ", out);
    print_rates(out, &price->rates);
    print_decimal(out, ", cache_hit: ", price->cache_hit, 1000000, 6);
    print_brackets(out, price);
    print_tiers(out, price);
    print_volume(out, price);
    (void)fputs("}\n", out);
}

static void print_tokens(FILE *out, const struct config_model *model)
{
    static const char *const kinds[PART_KINDS] = {"image", "audio", "video", "file"};
    const struct config_template *template = &model->template_tokens;
    const char *between = "    part_tokens: {";

    (void)fprintf(out,
                  "    template_tokens: {fixed: %" PRId64 ", per_message: %" PRId64
                  ", per_tool: %" PRId64 ", schema: %" PRId64 "%%}\n",
                  template->fixed, template->per_message, template->per_tool,
                  template->schema_percent);
    for (size_t i = 0; i < PART_KINDS; i++) {
        if (model->part_tokens[i] == 0)
            continue;
        (void)fprintf(out, "%s%s: %" PRId64, between, kinds[i], model->part_tokens[i]);
        between = ", ";
    }
    if (between[0] == ',')
        (void)fputs("}\n", out);
}

/* What the section meter has besides its options. */
static void print_meter(FILE *out, const struct config *config)
{
    if (config->journal.data == NULL)
        return;
    print_text(out, "  journal: ", config->journal, "\n");
    if (config->ledger.data != NULL) /* its scheme goes inside the quotes */
        (void)fprintf(out, "  ledger: 'sqlite:%.*s'\n", (int)config->ledger.size,
                      config->ledger.data);
    (void)fprintf(out, "  durability: %s\n", config->durable ? "power" : "process");
    if (config->signing_key.data != NULL)
        print_text(out, "  signing_key: ", config->signing_key, "\n");
    if (config->anchor_file.data != NULL || config->anchor_command.data != NULL)
        (void)fputs("  anchor:\n", out);
    if (config->anchor_file.data != NULL)
        print_text(out, "    file: ", config->anchor_file, "\n");
    if (config->anchor_command.data != NULL) /* it may bear a secret of the operator's */
        (void)fputs("    command: \"" REDACTED "\"\n", out);
    print_decimal(out, "  opex_factor: ", config->opex_ppm, PRICE_PPM, 6);
    (void)fputs("\n", out);
}

static void print_replica(FILE *out, const struct config_replica *replica)
{
    print_text(out, "      - {name: ", replica->name, ", ");
    print_text(out, "url: ", replica->url, "");
    if (replica->https)
        print_tls(out, &replica->tls, "ca");
    if (replica->key.data != NULL)
        (void)fputs(", key: \"" REDACTED "\"", out);
    (void)fprintf(out, ", slots: %u", replica->slots);
    if (replica->pusd_per_hour >= 0)
        print_decimal(out, ", usd_per_hour: ", replica->pusd_per_hour, INT64_C(1000000000000), 12);
    (void)fputs("}\n", out);
}

static void print_model(FILE *out, const struct config_model *model)
{
    print_text(out, "  ", model->name, ":\n");
    (void)fprintf(out, "    kind: %s\n    price:\n", kind_row(model->kind)->name.data);
    for (uint32_t i = 0; i < model->price_count; i++)
        print_price(out, &model->prices[i]);
    print_tokens(out, model);
    if (model->translate)
        (void)fprintf(out, "    translate: [%s%s%s]\n",
                      model->translate & 1u << ENDPOINT_MESSAGES ? "messages" : "",
                      model->translate == TRANSLATE_ALL ? ", " : "",
                      model->translate & 1u << ENDPOINT_RESPONSES ? "responses" : "");
    if (model->context > 0)
        (void)fprintf(out, "    context: %" PRId64 "\n", model->context);
    if (model->output > 0)
        (void)fprintf(out, "    output: %" PRId64 "\n", model->output);
    print_text(out, "    upstream_model: ", model->upstream_model, "\n");
    if (model->alias_count > 0) {
        (void)fputs("    aliases: [", out);
        for (uint32_t i = 0; i < model->alias_count; i++)
            print_text(out, i > 0 ? ", " : "", model->aliases[i], "");
        (void)fputs("]\n", out);
    }
    (void)fputs("    replicas:\n", out);
    for (uint32_t i = 0; i < model->replica_count; i++)
        print_replica(out, &model->replicas[i]);
    if (model->fallback_count > 0) {
        (void)fputs("    fallback: [", out);
        for (uint32_t i = 0; i < model->fallback_count; i++)
            print_text(out, i > 0 ? ", " : "", model->fallback[i]->name, "");
        (void)fputs("]\n", out);
    }
}

/* One part of a match, with a comma before it unless it is the first. */
static const char *next_part(bool *first)
{
    const char *comma = *first ? "" : ", ";

    *first = false;
    return comma;
}

static void print_tristate(FILE *out, const char *name, enum tristate state, bool *first)
{
    if (state != ANY)
        (void)fprintf(out, "%s%s: %s", next_part(first), name, state == YES ? "true" : "false");
}

static void print_class(FILE *out, const struct config_class *class)
{
    bool first = true;

    print_text(out, "  - {name: ", class->name, ", match: {");
    if (class->header_count > 0) {
        (void)fprintf(out, "%sheader: {", next_part(&first));
        for (uint32_t i = 0; i < class->header_count; i++) {
            print_text(out, i > 0 ? ", " : "", class->headers[i].name, ": ");
            print_text(out, "", class->headers[i].value, "");
        }
        (void)fputs("}", out);
    }
    if (class->endpoint != ENDPOINT_NONE)
        (void)fprintf(out, "%sendpoint: %s", next_part(&first),
                      endpoint_row(class->endpoint)->name.data);
    if (class->model_asked.data != NULL) {
        (void)fputs(next_part(&first), out);
        print_text(out, "model: ", class->model_asked, "");
    }
    if (class->system_prompt.data != NULL) {
        (void)fputs(next_part(&first), out);
        print_text(out, "system_prompt: ", class->system_prompt, "");
    }
    print_tristate(out, "tools", class->tools, &first);
    print_tristate(out, "images", class->images, &first);
    print_tristate(out, "schema", class->schema, &first);
    if (class->min_bytes >= 0)
        (void)fprintf(out, "%smin_body: %" PRId64, next_part(&first), class->min_bytes);
    if (class->max_bytes >= 0)
        (void)fprintf(out, "%smax_body: %" PRId64, next_part(&first), class->max_bytes);
    print_text(out, "}, model: ", class->model != NULL ? class->model->name : SPAN("auto"), "}\n");
}

static void print_tenant(FILE *out, const struct config *config, const struct config_tenant *tenant)
{
    bool first = true;

    print_text(out, "  ", tenant->name, ":\n    keys:\n");
    for (uint32_t i = 0; i < tenant->key_count; i++) {
        print_text(out, "      - {id: ", tenant->keys[i].id, ", key: \"" REDACTED "\"");
        if (tenant->keys[i].expires_us != 0)
            print_date(out, ", expires: ", tenant->keys[i].expires_us);
        (void)fputs("}\n", out);
    }
    (void)fputs("    models: [", out);
    for (uint32_t i = 0; i < config->model_count; i++)
        if (model_set_has(&tenant->models, i))
            print_text(out, next_part(&first), config->models[i].name, "");
    (void)fputs("]\n", out);
    if (tenant->tags_json.data != NULL)
        (void)fprintf(out, "    tags: %.*s\n", (int)tenant->tags_json.size, tenant->tags_json.data);
    print_text(out, "    zone: ", zone_name(tenant->zone), "\n");
}

static void print_section(FILE *out, const struct config *config, struct span section)
{
    (void)fprintf(out, "%.*s:\n", (int)section.size, section.data);
    if (span_equal(section, SPAN("meter")))
        print_meter(out, config);
}

static void print_options(FILE *out, const struct config *config)
{
    size_t count;
    const struct option *options = table_options(&count);
    size_t section_size = 0;

    for (size_t i = 0; i < count; i++) {
        const char *dot = strchr(options[i].key, '.');
        const size_t size = (size_t)(dot - options[i].key);
        int64_t value;
        char text[32];

        if (i == 0 || size != section_size || memcmp(options[i].key, options[i - 1].key, size) != 0)
            print_section(out, config, (struct span){options[i].key, size});
        section_size = size;
        memcpy(&value, (const char *)config + options[i].offset, sizeof(value));
        table_print_value(&options[i], value, text, sizeof(text));
        (void)fprintf(out, "  %s: %s\n", dot + 1, text);
    }
}

char *config_print_redacted(const struct config *config, size_t *out_size)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL)
        return NULL;
    (void)fprintf(out, "# generation %" PRIu64 " from %.*s\n", config->generation,
                  (int)config->file.size, config->file.data);
    print_process(out, config);
    (void)fputs("models:\n", out);
    for (uint32_t i = 0; i < config->model_count; i++)
        print_model(out, &config->models[i]);
    if (config->class_count > 0)
        (void)fputs("classes:\n", out);
    for (uint32_t i = 0; i < config->class_count; i++)
        print_class(out, &config->classes[i]);
    if (config->tenant_count > 0)
        (void)fputs("tenants:\n", out);
    for (uint32_t i = 0; i < config->tenant_count; i++)
        print_tenant(out, config, &config->tenants[i]);
    print_options(out, config);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    *out_size = size;
    return text;
}
