/*
 * Flags: monotonic words, compared as (signed)(seen - want) >= 0.
 *
 * What is modelled
 *   RANKS ranks make CALLS calls. In each, a rank writes its data word, raises its flag at every
 *   peer to the call's number, waits for the flag of every peer and reads its data word there. The
 *   data word of a call lies in the half of its parity, so that a fast rank, which is at most one
 *   call ahead, does not overwrite what a slow one still reads. Flag words are never cleared; they
 *   wrap at 8 (for 2^32), and the first call starts two before the wrap. The program order of the
 *   stores is the memory order here; see relacy_flags.cpp for the orders.
 *
 * Property
 *   A rank reads the data of its own call; no flag is ever more than 2 ahead of the awaited value
 *   (more is reported as corrupt); no rank hangs.
 *
 * Rule shown (flags, bulk, multicast)
 *   Flags are monotonic words compared by signed difference; equality hangs.
 *
 * Switches                 fault planted                                                  must
 *   RANKS=2|3              none: size of the model                                        hold
 *   EQUALITY               seen == want: misses the flag of a peer that is a call ahead   hang
 *   UNSIGNED_COMPARE       seen >= want: wrong at the wrap                                violate
 *   FLAG_FIRST             the flag is raised before the data is written                  violate
 *   ONE_HALF               every call uses the same data word                             violate
 *   ONE_HALF EXIT_BARRIER  none: a second flag says "I have read", all wait for it        hold
 */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 4
#endif

#define FLAG_WRAP 8
#define FIRST_FLAG 6
#define FLAG_OF(call) ((FIRST_FLAG + (call) - 1) % FLAG_WRAP)

#define DISTANCE(seen, want) (((seen) + FLAG_WRAP - (want)) % FLAG_WRAP)
#if defined(EQUALITY)
#define REACHED(seen, want) ((seen) == (want))
#elif defined(UNSIGNED_COMPARE)
#define REACHED(seen, want) ((seen) >= (want))
#else
#define REACHED(seen, want) (DISTANCE(seen, want) < FLAG_WRAP / 2)
#endif

#ifdef ONE_HALF
#define HALF(call) 0
#else
#define HALF(call) ((call) % 2)
#endif

byte data_words[RANKS * 2];             /* in the memory of the rank that writes them */
byte ready_flags[RANKS * RANKS];        /* in the memory of the rank that waits */
byte exit_flags[RANKS * RANKS];
#define DATA(owner, call) data_words[(owner) * 2 + HALF(call)]
#define READY(dst, src) ready_flags[(dst) * RANKS + (src)]
#define EXIT(dst, src) exit_flags[(dst) * RANKS + (src)]
#define PEER(distance) ((rank + (distance)) % RANKS)

inline wait_for(seen, want) {
    REACHED(seen, want);
    assert(DISTANCE(seen, want) <= 2)
}

inline raise_ready_flags() {
    for (distance : 1 .. RANKS - 1) {
        READY(PEER(distance), rank) = FLAG_OF(call)
    }
}

inline exit_barrier() {
    for (distance : 1 .. RANKS - 1) {
        EXIT(PEER(distance), rank) = FLAG_OF(call)
    }
    for (distance : 1 .. RANKS - 1) {
        wait_for(EXIT(rank, PEER(distance)), FLAG_OF(call))
    }
}

proctype Rank(byte rank) {
    byte call, distance;

    for (call : 1 .. CALLS) {
#ifdef FLAG_FIRST
        raise_ready_flags();
        DATA(rank, call) = call;
#else
        DATA(rank, call) = call;
        raise_ready_flags();
#endif
        for (distance : 1 .. RANKS - 1) {
            wait_for(READY(rank, PEER(distance)), FLAG_OF(call));
            assert(DATA(PEER(distance), call) == call)
        }
#ifdef EXIT_BARRIER
        exit_barrier()
#endif
    }
}

init {
    byte rank, slot;
    atomic {
        for (slot : 0 .. RANKS * RANKS - 1) {
            ready_flags[slot] = FLAG_OF(0);
            exit_flags[slot] = FLAG_OF(0)
        }
        for (rank : 0 .. RANKS - 1) {
            run Rank(rank)
        }
    }
}
