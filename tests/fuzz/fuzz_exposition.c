/* SPDX-License-Identifier: Apache-2.0 */
/* tests/fuzz/fuzz_exposition.c: pages of metrics in pieces, and again with noise between the lines.
 *
 * Checks: how a page is cut does not matter; comments, empty lines and families that nobody wants
 * change nothing; what is read is a number that can be, and a page that says nothing says so. */
#include "tests/fuzz/fuzz.h"

#include "gateway/exposition.h"

static bool read_page(struct span page, size_t step, struct load *out_load)
{
    static struct exposition exposition;

    exposition_init(&exposition);
    for (size_t at = 0; at < page.size; at += step)
        exposition_feed(&exposition, (struct span){page.data + at,
                                                   page.size - at < step ? page.size - at : step});
    return exposition_end(&exposition, out_load);
}

/* The page with noise behind each of its line ends. */
static bool read_noisy(struct span page, struct load *out_load)
{
    const struct span noise = SPAN("# TYPE x counter\n\n \nx_total{a=\"}\\\"\"} 1\n");
    struct exposition exposition;

    exposition_init(&exposition);
    for (size_t at = 0; at < page.size;) {
        const char *end = memchr(page.data + at, '\n', page.size - at);
        const size_t size = end ? (size_t)(end - page.data) + 1 - at : page.size - at;

        exposition_feed(&exposition, (struct span){page.data + at, size});
        if (end)
            exposition_feed(&exposition, noise);
        at += size;
    }
    return exposition_end(&exposition, out_load);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct load whole, parted, noisy;

    if (size == 0)
        return 0;
    const struct span page = {(const char *)data + 1, size - 1};
    const bool known = read_page(page, page.size + 1, &whole);

    CHECK(read_page(page, 1 + data[0] % 32, &parted) == known);
    CHECK(memcmp(&whole, &parted, sizeof(whole)) == 0);
    CHECK(read_noisy(page, &noisy) == known);
    CHECK(memcmp(&whole, &noisy, sizeof(whole)) == 0);
    for (size_t i = 0; i < LOAD_QUANTITIES; i++) {
        CHECK(whole.values[i] >= -1 && whole.values[i] <= INT64_C(9000000000000000));
        CHECK(known || i == LOAD_KV_TOKENS || whole.values[i] == -1);
    }
#ifdef PLANT_BUG
    CHECK(whole.values[LOAD_WAITING] != 17);
#endif
    return 0;
}
