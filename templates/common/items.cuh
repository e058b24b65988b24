// Which query tile comes when: by its number among those of a launch.
#pragma once
#include "common/sequences.cuh"

// Query tile and (b, h).
struct Item {
    int b, h, tile; // tile -1: none
    int n_entries;
};

// Heads are walked in sections, inside which the last query tiles of all heads, or those of the
// most work by the schedule, go first: they would otherwise end the launch with a long tail.
FACC_FN int in_section(int heads, int section, int section_heads)
{
    return min(section_heads, heads - section * section_heads);
}

// Without a schedule: the last query tiles first.
FACC_FN Item plain_item(const KernelArgs &args, unsigned number, int section_heads)
{
    const int per_section = section_heads * args.q_tiles;
    const int section = number / per_section;
    const int rest = number - section * per_section;
    const int width = in_section(args.B * args.H, section, section_heads);
    const int head = section * section_heads + rest % width;
    return Item{head / args.H, head % args.H, args.q_tiles - 1 - rest / width, 0};
}

// A place in the order of a schedule, and one of the (b, h) that share its rows.
struct Turn {
    int place, head;
};

// last_section: has all that is left, more than the others.
FACC_FN Turn find_turn(const KernelArgs &args, unsigned number, int section_heads,
                       int last_section = 0x7fffffff)
{
    const struct facc_schedule &s = args.schedule;
    const int heads = (s.per_b ? 1 : args.B) * (s.per_h ? 1 : args.H);
    const int per_section = min(section_heads, heads) * s.max_rows;
    const int section = min(static_cast<int>(number / per_section), last_section);
    const int rest = number - section * per_section;
    const int width = section < last_section ? in_section(heads, section, section_heads)
                                             : heads - section * section_heads;
    return Turn{rest / width, section * section_heads + rest % width};
}

FACC_FN Item scheduled_item(const KernelArgs &args, int head, int id)
{
    const struct facc_schedule &s = args.schedule;
    if (id < 0)
        return Item{0, 0, -1, 0};
    const facc_schedule_row row = s.rows[id];
    const int h = s.per_h ? row.h : head % args.H;
    const int b = s.per_b ? row.b : s.per_h ? head : head / args.H;
    return Item{b, h, row.tile, row.entries};
}
