/* The loop of matching/postings_kernel.py in C, over the same arrays: the reference for numba. */

#include <stdint.h>

enum { POST = 0, USED = 1 };

static inline int has(const uint8_t *bitmap, uint64_t term) { return (bitmap[term >> 3] >> (term & 7)) & 1; }

/* Returns 1 when all posts are done, 0 when `pairs` must grow first; the state then has the next post. */
int find(const uint32_t *restrict terms, const uint32_t *restrict bounds, uint64_t posts,
         const uint32_t *restrict list_start, const uint32_t *restrict second, const uint32_t *restrict rest,
         uint8_t *restrict bitmap, uint32_t *restrict listed, uint32_t *restrict pairs, uint64_t room, uint64_t *restrict state)
{
    uint64_t used = state[USED];
    for (uint64_t post = state[POST]; post < posts; post++) {
        const uint64_t start = bounds[2 * post], end = bounds[2 * post + 1], before = used;
        uint64_t count = 0;
        bitmap[0] |= 1; /* every post has term 0, "no further term" */
        for (uint64_t at = start; at < end; at++) {
            const uint32_t term = terms[at];
            const uint8_t bit = (uint8_t)(1u << (term & 7));
            __builtin_prefetch(second + list_start[term]);
            listed[count] = term;
            count += (list_start[term] < list_start[term + 1]) & !(bitmap[term >> 3] & bit);
            bitmap[term >> 3] |= bit;
        }
        for (uint64_t number = 0; number < count && used <= room; number++) {
            const uint64_t term = listed[number];
            for (uint64_t entry = list_start[term]; entry < list_start[term + 1]; entry++) {
                if (!has(bitmap, second[entry]))
                    continue;
                if (!has(bitmap, rest[2 * entry]) || !has(bitmap, rest[2 * entry + 1] & 0x7fffffffu))
                    continue;
                if (used >= room) {
                    used = room + 1;
                    break;
                }
                pairs[2 * used] = (uint32_t)post;
                pairs[2 * used + 1] = (uint32_t)entry;
                used++;
            }
        }
        for (uint64_t at = start; at < end; at++)
            bitmap[terms[at] >> 3] = 0;
        if (used > room) {
            state[POST] = post;
            state[USED] = before;
            return 0;
        }
    }
    state[POST] = posts;
    state[USED] = used;
    return 1;
}
