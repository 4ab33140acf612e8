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
 *   rank whose wait fails sets FAILED and stores an abort word into both peers, in either order:
 *   {communicator generation, source rank, missing rank, call}, one plain 64-bit store. Each rank
 *   stores into a place of its own in every peer and fails at most once in a generation, so no place
 *   is ever overwritten. A rank that fails because of an abort word passes it on unchanged, in its
 *   own place. An abort for call n is current for waits in calls >= n of the same communicator
 *   generation, and for no others. A wait looks at all places and may find any current word first.
 *   A call that starts with FAILED or finds a current abort pushes nothing and waits for nothing.
 *   Words are GOOD or GARBAGE; a failed rank has nothing but garbage from then on.
 *
 * The hint
 *   A call's start looks at the places only if a hint word beside FAILED is set, which may be seen
 *   before or after the abort word. There is no hint here: a call's start may find any current word,
 *   or overlook all of them. Every order of hint and word is one of these; nothing depends on it.
 *
 * The zombie
 *   Recovery drains the old kernels of every rank that goes on, meets the others at a barrier and
 *   only then fills the places: no rank of the new generation has an old kernel left that could
 *   store. A rank that did not come to the barrier is out for good, and the others go on in new
 *   memory, where its stores do not land. So a zombie can only be a removed rank, and its place is
 *   not that of a live one. Here it even reaches ranks 0 and 2, at any time: the generation in its
 *   word makes it inert. UNDRAINED shows why the drain comes first.
 *
 * Property
 *   A call that succeeds has a good result. A call fails only because of a wait that has expired in
 *   this generation, in this call or an earlier one; the abort word names the rank of that wait,
 *   its call and the rank it waited for. No rank hangs.
 *
 * Rules shown (bounded waits and the health block)
 *   A failed wait publishes nothing more: no sum, no flag, no later push; stale aborts are inert.
 *   To store the abort word before the garbage protects nobody: a peer's first poll may already
 *   find the garbage. The faults below do store it before.
 *
 * Switches             fault planted                                                       must
 *   (none)             none                                                                hold
 *   DETECTORS=bits     none: only the waits of the ranks whose bit is set expire by
 *                      themselves; the others run with timeout 0 and depend on an abort    hold
 *   GARBAGE_SUM        a failed owner still pushes its sum                                 violate
 *   GARBAGE_FLAG       a failed owner still raises its flag                                violate
 *   NEXT_PUSH          a call that starts with FAILED still pushes                         violate
 *   IGNORE_GENERATION  an abort of the generation before counts as current                 violate
 *   IGNORE_CALL        an abort of a later call counts as current                          violate
 *   OWN_ABORT          a rank that fails because of an abort stores one of its own         violate
 *   DETECTORS=6 LAST_WRITER_WINS NO_ZOMBIE
 *                      one place for all sources: two ranks fail on their own, the later
 *                      call's abort replaces the one that rank 0 needs                     hang
 *   DETECTORS=2 LAST_WRITER_WINS
 *                      the same: the zombie's abort replaces the one that a rank needs     hang
 *   DETECTORS=2 UNDRAINED
 *                      rank 1 goes on with an old kernel not drained: the old abort
 *                      replaces the new one, in rank 1's own place                         hang
 *   NO_ZOMBIE          none: leaves the zombie out                                         hold
 */

#define RANKS 3
#define CALLS 3

#define NOTHING 0
#define GOOD 1
#define GARBAGE 2

#define OLD_GENERATION 1
#define GENERATION 2

#ifdef UNDRAINED
#define ZOMBIE_RANK 1
#else
#define ZOMBIE_RANK 3               /* a number that no rank has any more */
#endif

/* The abort word. 0: none. */
#define ABORT(generation, call, source, missing) \
    ((generation) * 64 + (call) * 16 + (source) * 4 + (missing))
#define ABORT_GENERATION(word) ((word) / 64)
#define ABORT_CALL(word) (((word) / 16) % 4)
#define ABORT_SOURCE(word) (((word) / 4) % 4)

#define PLACES 4
byte abort_word[RANKS * PLACES];    /* in each rank's control page, stored by its peers */
#ifdef LAST_WRITER_WINS
#define PLACE(peer, source) abort_word[(peer) * PLACES]
#else
#define PLACE(peer, source) abort_word[(peer) * PLACES + (source)]
#endif

bool failed[RANKS];                 /* FAILED, in each rank's control page */

byte part[CALLS * RANKS * RANKS];   /* words pushed in a call, by destination and source */
byte pushed_sum;                    /* call 1: at rank 0 */
byte owned_sum;                     /* call 2: in the memory of rank 0, read by its peers */
bool sum_flag[RANKS];               /* call 2: at each peer of rank 0 */
#define PART(call, dst, src) part[(((call) - 1) * RANKS + (dst)) * RANKS + (src)]

/* For the assertions only: the abort word that describes the rank's own expired wait. */
byte expired[PLACES];

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
#define IS_CURRENT(word) (SAME_GENERATION(word) && CALL_COUNTS(word))
#define FINDS_ABORT_OF(source) (!failed[rank] && IS_CURRENT(PLACE(rank, source)))

#ifndef DETECTORS
#define DETECTORS 7
#endif
#define MAY_EXPIRE ((DETECTORS >> rank) & 1)

#define NEXT_RANK ((rank + 1) % RANKS)
#define LAST_RANK ((rank + 2) % RANKS)

inline tell_peers() {
    if
    :: PLACE(NEXT_RANK, rank) = told;
        atomic { PLACE(LAST_RANK, rank) = told; told = 0 }
    :: PLACE(LAST_RANK, rank) = told;
        atomic { PLACE(NEXT_RANK, rank) = told; told = 0 }
    fi
}

/* An abort word that ends a call names an expired wait of this call or an earlier one. */
inline fail_if_told(missing) {
    if
    :: told != 0 ->
        assert(ABORT_CALL(told) <= call);
        assert(expired[ABORT_SOURCE(told)] == told);
        value = GARBAGE;
        failed[rank] = true;
#ifdef OWN_ABORT
        told = ABORT(GENERATION, call, rank, missing)
#endif
    :: told == 0
    fi
}

inline tell_peers_if_told() {
    if
    :: told != 0 -> tell_peers()
    :: told == 0
    fi
}

/* One wait of this rank for a word that the rank `missing` has to store. */
inline wait_for(word, missing) {
    atomic {
        if
        :: failed[rank]             /* an earlier wait of this call has failed */
        :: !failed[rank] && word != NOTHING
        :: FINDS_ABORT_OF(NEXT_RANK) -> told = PLACE(rank, NEXT_RANK)
        :: FINDS_ABORT_OF(LAST_RANK) -> told = PLACE(rank, LAST_RANK)
        :: FINDS_ABORT_OF(ZOMBIE_RANK) -> told = PLACE(rank, ZOMBIE_RANK)
        :: !failed[rank] && MAY_EXPIRE && word == NOTHING ->
            told = ABORT(GENERATION, call, rank, missing);
            expired[rank] = told
        fi;
        fail_if_told(missing)
    };
    tell_peers_if_told()
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

/* The start of a call, which reads the control line once: any current abort, or none (the hint). */
inline start_call() {
    atomic {
        if
        :: FINDS_ABORT_OF(NEXT_RANK) -> told = PLACE(rank, NEXT_RANK)
        :: FINDS_ABORT_OF(LAST_RANK) -> told = PLACE(rank, LAST_RANK)
        :: FINDS_ABORT_OF(ZOMBIE_RANK) -> told = PLACE(rank, ZOMBIE_RANK)
        :: true
        fi;
        fail_if_told(rank)
    };
    tell_peers_if_told()
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
    byte told;                      /* the abort word to store into the peers, or 0 */

    do
    :: call > CALLS -> break
    :: call <= CALLS ->
        start_call();
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

/* A kernel of the generation before, given up in its call 1 while it waited for rank 0. */
proctype Zombie() {
    PLACE(0, ZOMBIE_RANK) = ABORT(OLD_GENERATION, 1, ZOMBIE_RANK, 0);
    PLACE(2, ZOMBIE_RANK) = ABORT(OLD_GENERATION, 1, ZOMBIE_RANK, 0)
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
