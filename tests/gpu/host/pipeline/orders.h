// The orders in which items are given to CTAs, for pipeline.cpp: each is given once.
#pragma once
#include "cases.h"

// Sections have every place of every head once.
static std::string check_sections(int shapes)
{
    for (int i = 0; i < shapes; ++i) {
        KernelArgs a{};
        a.B = draw(1, 3);
        a.H = draw(1, 20);
        a.schedule.max_rows = draw(1, 20);
        a.section_heads = draw(1, a.B * a.H);
        a.last_section = draw(0, (a.B * a.H - 1) / a.section_heads);
        const int heads = a.B * a.H, work = heads * a.schedule.max_rows;
        std::vector<int> given(work);
        for (int n = 0; n < work; ++n) {
            const Turn t = find_turn(a, n, a.section_heads, a.last_section);
            if (t.place < 0 || t.place >= a.schedule.max_rows || t.head < 0 || t.head >= heads ||
                given[t.head * a.schedule.max_rows + t.place]++)
                return simt::text("sections of %d of %d heads, last %d: place %d of head %d",
                                  a.section_heads, heads, a.last_section, t.place, t.head);
        }
    }
    return "";
}

// The fixed order gives every query tile of every head to one CTA, whatever their numbers.
static std::string check_fixed_order(int shapes)
{
    simt::Cta cta;
    simt::m.cta = &cta;
    for (int i = 0; i < shapes; ++i) {
        const int most = draw(0, 1) ? 6 : 200;
        KernelArgs a{};
        a.B = draw(1, 8);
        a.H = draw(1, most) / a.B + 1;
        a.q_tiles = draw(1, most);
        a.num_work = a.B * a.H * a.q_tiles;
        a.section_heads = draw(1, a.B * a.H);
        simt::m.grid.x = min(a.num_work, draw(1, most));
        std::vector<int> given(a.num_work);
        const std::string shape = simt::text("fixed order, B %d H %d, %d tiles, %u CTAs: ", a.B,
                                             a.H, a.q_tiles, simt::m.grid.x);
        for (cta.index.x = 0; cta.index.x < simt::m.grid.x; ++cta.index.x) {
            FixedOrder order(a);
            for (int n = 0;; ++n) {
                const Item item = order.next(a);
                if (item.tile < 0)
                    break;
                if (item.b < 0 || item.b >= a.B || item.h < 0 || item.h >= a.H ||
                    item.tile >= a.q_tiles || n > a.num_work)
                    return shape + "an item that is none";
                ++given[(item.b * a.H + item.h) * a.q_tiles + item.tile];
            }
            if (order.next(a).tile >= 0)
                return shape + "goes on behind its end";
        }
        for (int n : given)
            if (n != 1)
                return shape + simt::text("an item is given %d times", n);
    }
    return "";
}

// By a CTA for each b of the same h, tiles of the same plane are worked on at the same time.
static std::string check_turns(int shapes)
{
    simt::Cta cta;
    simt::m.cta = &cta;
    for (int i = 0; i < shapes && kPlanes; ++i) {
        KernelArgs a{};
        a.B = draw(2, 4);
        a.H = draw(1, 9);
        a.q_tiles = draw(1, 9);
        a.num_work = a.B * a.H * a.q_tiles;
        simt::m.grid.x = a.B;
        std::vector<FixedOrder> orders;
        for (cta.index.x = 0; cta.index.x < simt::m.grid.x; ++cta.index.x)
            orders.emplace_back(a);
        for (int n = 0; n < a.H * a.q_tiles; ++n) {
            Item first{};
            unsigned all = 0;
            for (cta.index.x = 0; cta.index.x < simt::m.grid.x; ++cta.index.x) {
                const Item item = orders[cta.index.x].next(a);
                if (cta.index.x == 0)
                    first = item;
                if (item.h != first.h || item.tile != first.tile)
                    return simt::text("B %d H %d, %d tiles: CTAs are not at the same tile", a.B,
                                      a.H, a.q_tiles);
                all |= 1u << item.b;
            }
            if (all != (1u << a.B) - 1)
                return simt::text("B %d H %d, %d tiles: not all b", a.B, a.H, a.q_tiles);
        }
    }
    return "";
}
