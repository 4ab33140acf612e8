/*
 * Lamport exchange: the data is its own flag, in three generations of memory.
 *
 * What is modelled
 *   RANKS ranks make CALLS calls. A call is a kernel of two blocks on each rank: the exchange block
 *   pushes this rank's data and header to every peer and polls theirs; the clear block refills the
 *   generation of the call before, at the same time. A word holds 0 (the fill) or the number of the
 *   call whose value it is. Each rank keeps its generation in device memory; the last block out
 *   advances it. A kernel starts when the kernel before it on the same rank is complete. The
 *   program order of the stores is the memory order here: weak memory is not this model's subject.
 *
 * Property
 *   A poll that finds a word finds the value of its own call (assertions), and every rank finishes
 *   every call (no invalid end state).
 *
 * Rules shown (Lamport)
 *   Three generations, one byte range for all algorithms, clear the extent of the call before,
 *   a full header exchange in every call, generation kept modulo 3; and with early launch: the wait
 *   carries the proof, not the trigger.
 *
 * Switches                         fault planted                                       must
 *   RANKS=2|3, CALLS=n             none: size of the model                             hold
 *   GENERATIONS=2                  a fast peer pushes into the generation that is
 *                                  being cleared, and the push is lost                 hang
 *   NO_HEADER                      none while every rank waits for data of every other hold
 *   EMPTY_CALL=n                   none: in call n the last rank's share is empty,
 *                                  nobody has data for it                              hold
 *   EMPTY_CALL=n NO_HEADER         the last rank waits for nobody in call n and pushes
 *                                  into a generation that is being cleared             hang
 *   ZERO_SKIPS=n                   the last rank launches nothing in call n (zero
 *                                  tokens): all its later calls are one off            violate
 *   MIX=bits                       none: call n is of another algorithm, with a region
 *                                  of its own, if bit n is set                         hold
 *   MIX=bits CLEAR_OWN_REGION      a call clears only the region of its own algorithm  violate
 *   NO_CLEAR                       nothing is cleared                                  violate
 *   FREE_RUNNING_COUNTER           generation = counter % 3 of a counter that wraps at
 *                                  4: like 2^32, 4 leaves the rest 1, and at the wrap
 *                                  one generation comes twice in a row                 violate
 *   EARLY_LAUNCH                   none: a block starts once all blocks of the call
 *                                  before have triggered, and waits for its end        hold
 *   EARLY_LAUNCH READ_BEFORE_WAIT  the generation is read before that wait             hang
 *   EARLY_LAUNCH NO_WAIT           there is no wait (the generation is an argument)    hang
 */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef CALLS
#define CALLS 5
#endif
#ifndef GENERATIONS
#define GENERATIONS 3
#endif
#ifndef EMPTY_CALL
#define EMPTY_CALL 0
#endif
#ifndef ZERO_SKIPS
#define ZERO_SKIPS 0
#endif
#ifndef MIX
#define MIX 0
#endif

#define FILL 0
#define LAST_RANK (RANKS - 1)
#define BLOCKS 2
#if MIX
#define REGIONS 2
#else
#define REGIONS 1
#endif
#define REGION_OF(call) ((MIX >> (call)) & 1)

/* Words in the memory of rank `dst`, written by rank `src`. */
byte data_words[RANKS * GENERATIONS * REGIONS * RANKS];
byte header_words[RANKS * GENERATIONS * RANKS];
#define DATA(dst, gen, region, src) \
    data_words[(((dst) * GENERATIONS + (gen)) * REGIONS + (region)) * RANKS + (src)]
#define HEADER(dst, gen, src) header_words[((dst) * GENERATIONS + (gen)) * RANKS + (src)]

/* Control page of each rank. */
byte control[RANKS];        /* generation of the next call (or the free-running counter) */
byte arrivals[RANKS];       /* blocks of the current call that are out */
byte completed[RANKS];      /* kernels complete: the kernel boundary */
byte triggered[RANKS];      /* blocks that have allowed the next kernel to start early */

#define PREVIOUS(gen) (((gen) + GENERATIONS - 1) % GENERATIONS)

#ifdef FREE_RUNNING_COUNTER
#define COUNTER_WRAP 4
#define FIRST_CONTROL 2     /* two calls before the wrap */
#define NEXT_CONTROL(c) (((c) + 1) % COUNTER_WRAP)
#else
#define FIRST_CONTROL 0
#define NEXT_CONTROL(c) (((c) + 1) % GENERATIONS)
#endif
#define GENERATION_OF(c) ((c) % GENERATIONS)

/* In the empty call nobody has data for the last rank. */
#define HAS_DATA(dst, call) (!((call) == EMPTY_CALL && (dst) == LAST_RANK))

/* Start of a block. `launches` counts the kernels this rank has launched, this one included. */
#define PREVIOUS_KERNEL_COMPLETE (completed[rank] >= launches - 1)
#define PREVIOUS_KERNEL_TRIGGERED (triggered[rank] >= BLOCKS * (launches - 1))

inline start_block() {
#ifdef EARLY_LAUNCH
    atomic { PREVIOUS_KERNEL_TRIGGERED -> triggered[rank]++ };
#endif
#if defined(READ_BEFORE_WAIT)
    generation = GENERATION_OF(control[rank]);
    PREVIOUS_KERNEL_COMPLETE
#elif defined(NO_WAIT)
    generation = GENERATION_OF(launches - 1)
#else
    atomic { PREVIOUS_KERNEL_COMPLETE -> generation = GENERATION_OF(control[rank]) }
#endif
}

/* A block's last act; the last one out advances the control word. */
inline arrive() {
    arrivals[rank]++;
    if
    :: arrivals[rank] == BLOCKS ->
        arrivals[rank] = 0;
        control[rank] = NEXT_CONTROL(control[rank]);
        completed[rank]++
    :: else
    fi;
    generation = 0;
    call++;
    launches++
}

#define PEER(distance) ((rank + (distance)) % RANKS)

/* Sets of words: the data word and the header word exchanged with the peer at a distance. */
#define DATA_WORD(distance) (1 << ((distance) - 1))
#define HEADER_WORD(distance) (4 << ((distance) - 1))
#ifdef NO_HEADER
#define WORDS(distance) DATA_WORD(distance)
#else
#define WORDS(distance) (DATA_WORD(distance) + HEADER_WORD(distance))
#endif
#if RANKS == 2
#define ALL_WORDS WORDS(1)
#else
#define ALL_WORDS (WORDS(1) + WORDS(2))
#endif

#define MY_DATA(distance) DATA(rank, generation, REGION_OF(call), PEER(distance))
#define MY_HEADER(distance) HEADER(rank, generation, PEER(distance))

#define DATA_READY(distance) (!HAS_DATA(rank, call) || MY_DATA(distance) != FILL)
#define DATA_RIGHT(distance) (!HAS_DATA(rank, call) || MY_DATA(distance) == call)

/*
 * One step each: guard, action and bookkeeping. With two ranks, data and header are pushed and
 * polled in any order. With three, to keep the search small, the two words for one peer are pushed
 * in one step, and polled in one step, peer after peer; check_leftovers() stands for the polls that
 * look at each word alone as soon as the call starts. (Without it that model would miss an old data
 * word behind a header that is still to come.) Clears go peer after peer.
 */
inline push(distance, words) {
    atomic {
        !(pushed & (words)) ->
        if
        :: ((words) & DATA_WORD(distance)) && HAS_DATA(PEER(distance), call) ->
            DATA(PEER(distance), generation, REGION_OF(call), rank) = call
        :: else
        fi;
        if
        :: (words) & HEADER_WORD(distance) -> HEADER(PEER(distance), generation, rank) = call
        :: else
        fi;
        pushed = pushed | (words)
    }
}

inline poll(distance, words, turn) {
    atomic {
        !(seen & (words)) && (turn) &&
        (!((words) & DATA_WORD(distance)) || DATA_READY(distance)) &&
        (!((words) & HEADER_WORD(distance)) || MY_HEADER(distance) != FILL) ->
        assert(!((words) & DATA_WORD(distance)) || DATA_RIGHT(distance));
        assert(!((words) & HEADER_WORD(distance)) || MY_HEADER(distance) == call);
        seen = seen | (words)
    }
}

inline check_leftovers() {
    assert(MY_DATA(1) == FILL || DATA_RIGHT(1));
    assert(MY_DATA(2) == FILL || DATA_RIGHT(2));
    assert(MY_HEADER(1) == FILL || MY_HEADER(1) == call);
    assert(MY_HEADER(2) == FILL || MY_HEADER(2) == call)
}

#define ALL_CLEARED ((1 << (RANKS - 1)) - 1)
#ifdef NO_CLEAR
#define NOTHING_CLEARED ALL_CLEARED
#else
#define NOTHING_CLEARED 0
#endif

inline clear_from(distance) {
    atomic {
        cleared == DATA_WORD(distance) - 1 ->
#ifdef CLEAR_OWN_REGION
        DATA(rank, PREVIOUS(generation), REGION_OF(call), PEER(distance)) = FILL;
#else
        DATA(rank, PREVIOUS(generation), REGION_OF(call - 1), PEER(distance)) = FILL;
#endif
        HEADER(rank, PREVIOUS(generation), PEER(distance)) = FILL;
        cleared = cleared | DATA_WORD(distance)
    }
}

proctype ExchangeBlock(byte rank) {
    byte call = 1;
    byte launches = 1;
    byte generation;
    byte pushed, seen;              /* sets of words */

    do
    :: call > CALLS -> break
    :: call <= CALLS && call == ZERO_SKIPS && rank == LAST_RANK -> call++
    :: call <= CALLS && !(call == ZERO_SKIPS && rank == LAST_RANK) ->
#if RANKS > 2
        atomic { start_block(); check_leftovers() };
#else
        start_block();
#endif
        do
#if defined(NO_HEADER) && RANKS == 2
        :: push(1, DATA_WORD(1))
        :: poll(1, DATA_WORD(1), true)
#elif RANKS == 2
        :: push(1, DATA_WORD(1))
        :: push(1, HEADER_WORD(1))
        :: poll(1, DATA_WORD(1), true)
        :: poll(1, HEADER_WORD(1), true)
#else
        :: push(1, WORDS(1))
        :: push(2, WORDS(2))
        :: poll(1, WORDS(1), true)
        :: poll(2, WORDS(2), seen == WORDS(1))
#endif
        :: atomic {
            pushed == ALL_WORDS && seen == ALL_WORDS ->
            pushed = 0;
            seen = 0;
            arrive();
            break
        }
        od
    od
}

proctype ClearBlock(byte rank) {
    byte call = 1;
    byte launches = 1;
    byte generation;
    byte cleared = ALL_CLEARED;   /* the first call has nothing to clear */

    do
    :: call > CALLS -> break
    :: call <= CALLS && call == ZERO_SKIPS && rank == LAST_RANK -> call++
    :: call <= CALLS && !(call == ZERO_SKIPS && rank == LAST_RANK) ->
        start_block();
        do
        :: clear_from(1)
#if RANKS > 2
        :: clear_from(2)
#endif
        :: atomic {
            cleared == ALL_CLEARED ->
            cleared = NOTHING_CLEARED;
            arrive();
            break
        }
        od
    od
}

init {
    byte rank;
    atomic {
        for (rank : 0 .. RANKS - 1) {
            control[rank] = FIRST_CONTROL;
            run ExchangeBlock(rank);
            run ClearBlock(rank)
        }
    }
}
