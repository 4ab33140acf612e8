/*
 * Abort: a failed wait publishes nothing more, and tells every peer.
 *
 * What is modelled
 *   Three ranks make three calls; the result of a call is the input of the next one.
 *     Call 1, reduce by push:  ranks 0 and 2 push their part to owner 1; it sums and pushes the sum
 *                              to rank 0. Rank 2 waits for nobody and may be a call ahead.
 *     Call 2, sum by flag:     ranks 1 and 2 push their part to owner 0; it writes the sum to its
 *                              own memory and raises a flag at both; they wait for it and read.
 *     Call 3, one-shot:        everyone pushes to everyone.
 *   Any wait may expire at any moment while its word is still missing (a late or a dead peer). A
 *   rank whose wait fails, sets FAILED and stores its abort word into both peers: {communicator
 *   generation, source rank, missing rank, call}, one atomic 64-bit word. Of two abort words in one
 *   place, the newer generation wins, then the earlier call: an atomic maximum.
 *   An abort for call n is current for waits in calls >= n of the same communicator generation, and for no others. A
 *   call that starts with FAILED or a current abort pushes nothing and waits for nothing. A zombie
 *   of the generation before stores its abort word into every rank at any time. Words are GOOD or
 *   GARBAGE; a failed rank has nothing but garbage from then on.
 *
 * Property
 *   A call that succeeds has a good result. A call fails only if a wait of this call or an earlier
 *   one has expired in this generation, and the abort word names a rank that did fail, in the call
 *   and for the rank given. No rank hangs.
 *
 * Rules shown (bounded waits and the health block)
 *   A failed wait publishes nothing more: no sum, no flag, no later push; stale aborts are inert.
 *   To store the abort word before the garbage protects nobody: a peer's first poll may already
 *   find the garbage. The faults below do store it before.
 *
 * Switches             fault planted                                                       must
 *   (none)             none                                                                hold
 *   GARBAGE_SUM        a failed owner still pushes its sum                                 violate
 *   GARBAGE_FLAG       a failed owner still raises its flag                                violate
 *   NEXT_PUSH          a call that starts with FAILED still pushes                         violate
 *   IGNORE_GENERATION  an abort of the generation before counts as current                 violate
 *   IGNORE_CALL        an abort of a later call counts as current                          violate
 *   ONE_DETECTOR=rank  none: only the waits of this rank expire by themselves (the others
 *                      run with timeout 0 and depend on its abort)                         hold
 *   LAST_WRITER_WINS   abort words are plain stores: harmless while every rank's own
 *                      waits expire                                                        hold
 *   ONE_DETECTOR=1 LAST_WRITER_WINS
 *                      an abort of a later call, or of the zombie, replaces the one that
 *                      a rank in an earlier call needs                                     hang
 *   NO_ZOMBIE          none: leaves the zombie out                                         hold
 */

#define RANKS 3
#define CALLS 3

#define NOTHING 0
#define GOOD 1
#define GARBAGE 2

#define OLD_GENERATION 1
#define GENERATION 2

/* The abort word: the larger, the more it matters (newer generation, then earlier call). */
#define ABORT(generation, call, source, missing) \
    ((generation) * 256 + (15 - (call)) * 16 + (source) * 4 + (missing))
#define ABORT_GENERATION(word) ((word) / 256)
#define ABORT_CALL(word) (15 - (((word) / 16) % 16))
#define ABORT_SOURCE(word) (((word) / 4) % 4)
#define ABORT_MISSING(word) ((word) % 4)

short abort_word[RANKS];            /* in each rank's control page, stored by its peers */
bool failed[RANKS];                 /* FAILED, in each rank's control page */

byte part[CALLS * RANKS * RANKS];   /* words pushed in a call, by destination and source */
byte pushed_sum;                    /* call 1: at rank 0 */
byte owned_sum;                     /* call 2: in the memory of rank 0, read by its peers */
bool sum_flag[RANKS];               /* call 2: at each peer of rank 0 */
#define PART(call, dst, src) part[(((call) - 1) * RANKS + (dst)) * RANKS + (src)]

/* For the assertions only. */
byte first_expired_call;            /* the earliest call in which a wait has expired, or 0 */
byte failed_in_call[RANKS];
byte was_missing[RANKS];

#ifdef IGNORE_GENERATION
#define SAME_GENERATION(word) ((word) != 0)
#else
#define SAME_GENERATION(word) (ABORT_GENERATION(word) == GENERATION)
#endif
#ifdef IGNORE_CALL
#define CALL_COUNTS(word) true
#else
#define CALL_COUNTS(word) (ABORT_CALL(word) <= call)
#endif
#define ABORT_IS_CURRENT (SAME_GENERATION(abort_word[rank]) && CALL_COUNTS(abort_word[rank]))

#ifdef ONE_DETECTOR
#define MAY_EXPIRE (rank == ONE_DETECTOR)
#else
#define MAY_EXPIRE true
#endif

#define NEXT_RANK ((rank + 1) % RANKS)
#define LAST_RANK ((rank + 2) % RANKS)

/* An abort that a rank acts on names a true failure of this call or an earlier one. */
inline check_abort() {
    assert(first_expired_call != 0 && first_expired_call <= call);
    assert(failed_in_call[ABORT_SOURCE(abort_word[rank])] == ABORT_CALL(abort_word[rank]));
    assert(was_missing[ABORT_SOURCE(abort_word[rank])] == ABORT_MISSING(abort_word[rank]))
}

inline store_abort(peer, word) {
    atomic {
#ifdef LAST_WRITER_WINS
        abort_word[peer] = word
#else
        if
        :: word > abort_word[peer] -> abort_word[peer] = word
        :: else
        fi
#endif
    }
}

inline fail(missing) {
    value = GARBAGE;
    failed[rank] = true;
    failed_in_call[rank] = call;
    was_missing[rank] = missing
}

inline tell_peers(missing) {
    store_abort(NEXT_RANK, ABORT(GENERATION, call, rank, missing));
    store_abort(LAST_RANK, ABORT(GENERATION, call, rank, missing))
}

/* One wait of this rank for a word that the rank `missing` has to store. */
inline wait_for(word, missing) {
    if
    :: failed[rank]                 /* an earlier wait of this call has failed */
    :: !failed[rank] && word != NOTHING
    :: atomic { !failed[rank] && ABORT_IS_CURRENT -> check_abort(); fail(missing) };
        tell_peers(missing)
    :: atomic {
            !failed[rank] && MAY_EXPIRE && word == NOTHING ->
            if
            :: first_expired_call == 0 || first_expired_call > call -> first_expired_call = call
            :: else
            fi;
            fail(missing)
        };
        tell_peers(missing)
    fi
}

/* A sum is good if this rank has not failed and all parts are good. */
#define SUM(left, right) \
    ((value == GOOD && (left) == GOOD && (right) == GOOD) -> GOOD : GARBAGE)

inline reduce_by_push() {
    if
    :: rank == 1 ->
        wait_for(PART(call, 1, 0), 0);
        wait_for(PART(call, 1, 2), 2);
        atomic { value = SUM(PART(call, 1, 0), PART(call, 1, 2)) };
        if
#ifdef GARBAGE_SUM
        :: true -> pushed_sum = value
#else
        :: !failed[rank] -> pushed_sum = value
        :: failed[rank]
#endif
        fi
    :: rank != 1 ->
        PART(call, 1, rank) = value;
        if
        :: rank == 0 ->
            wait_for(pushed_sum, 1);
            value = (failed[rank] -> GARBAGE : pushed_sum)
        :: rank != 0
        fi
    fi
}

inline sum_by_flag() {
    if
    :: rank == 0 ->
        wait_for(PART(call, 0, 1), 1);
        wait_for(PART(call, 0, 2), 2);
        atomic { value = SUM(PART(call, 0, 1), PART(call, 0, 2)) };
        owned_sum = value;          /* its own memory: nobody looks before the flag */
        if
#ifdef GARBAGE_FLAG
        :: true ->
#else
        :: failed[rank]
        :: !failed[rank] ->
#endif
            sum_flag[1] = true;
            sum_flag[2] = true
        fi
    :: rank != 0 ->
        PART(call, 0, rank) = value;
        wait_for(sum_flag[rank], 0);
        value = (failed[rank] -> GARBAGE : owned_sum)
    fi
}

inline one_shot() {
    PART(call, NEXT_RANK, rank) = value;
    PART(call, LAST_RANK, rank) = value;
    wait_for(PART(call, rank, NEXT_RANK), NEXT_RANK);
    wait_for(PART(call, rank, LAST_RANK), LAST_RANK);
    atomic { value = SUM(PART(call, rank, NEXT_RANK), PART(call, rank, LAST_RANK)) }
}

/* What a call does that starts with FAILED or a current abort: nothing. */
inline start_failed() {
#ifdef NEXT_PUSH
    if
    :: call == 2 && rank != 0 -> PART(call, 0, rank) = value
    :: call == 3 ->
        PART(call, NEXT_RANK, rank) = value;
        PART(call, LAST_RANK, rank) = value
    :: else
    fi
#else
    skip
#endif
}

proctype Rank(byte rank) {
    byte call = 1;
    byte value = GOOD;

    do
    :: call > CALLS -> break
    :: call <= CALLS ->
        /* The control line is read once, at the start of the call. */
        atomic {
            if
            :: !failed[rank] && ABORT_IS_CURRENT ->
                check_abort();
                fail(ABORT_MISSING(abort_word[rank]))
            :: else
            fi
        };
        if
        :: failed[rank] -> start_failed()
        :: !failed[rank] && call == 1 -> reduce_by_push()
        :: !failed[rank] && call == 2 -> sum_by_flag()
        :: !failed[rank] && call == 3 -> one_shot()
        fi;
        assert(failed[rank] || value == GOOD);      /* success means a good result */
        call++
    od
}

/* Rank 2 of the generation before, given up in its call 1 while it waited for rank 0. */
proctype Zombie() {
    store_abort(0, ABORT(OLD_GENERATION, 1, 2, 0));
    store_abort(1, ABORT(OLD_GENERATION, 1, 2, 0));
    store_abort(2, ABORT(OLD_GENERATION, 1, 2, 0))
}

init {
    byte rank;
    atomic {
        for (rank : 0 .. RANKS - 1) {
            run Rank(rank)
        }
#ifndef NO_ZOMBIE
        run Zombie()
#endif
    }
}
