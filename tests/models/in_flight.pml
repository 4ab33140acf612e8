/*
 * In flight: one arrival word notices two kernels of one communicator that run at the same time.
 *
 * What is modelled
 *   Two kernels, A and B, of one rank, as when two graphs are replayed on two streams. Each has a
 *   grid of blocks. A kernel reads the call sequence from the control word at its start. A block's
 *   last protocol act is its arrival: an atomic add on one 64-bit word {sequence, arrivals} that
 *   returns the word before the add. Another sequence than the one read, or a count above the grid,
 *   is reported as corrupt. The last block out stores {sequence + 1, 0}, then the control word: two
 *   steps, between which other blocks may arrive. B may start at any moment: after A's last act
 *   (properly ordered) or before it (in flight together).
 *
 * Property
 *   Two kernels in flight together are reported by at least one block; a properly ordered pair by
 *   none, and it advances the sequence by two.
 *
 * Rule shown (calls, streams, graphs, early launch)
 *   Arrival word = 64 bits {call sequence, arrivals}; a block arrives once as its last protocol
 *   act; the last one out advances; another sequence or a count above the grid is "two calls in
 *   flight"; every block arrives, failed or not.
 *
 * What the rule needs
 *   "Always reported" holds when all blocks of a kernel read the same sequence. With BLOCK_READS
 *   each block reads for itself when it starts, and there is a gap: early blocks of both kernels
 *   add up to one whole grid and advance the sequence before the other blocks start; these read the
 *   new sequence and find nothing wrong. LAUNCH_ID closes it: the arrival also adds a number that all
 *   blocks of a launch share and that differs between launches; the last block out compares the sum
 *   with its own number times its grid.
 *
 * Switches            fault planted                                                        must
 *   GRID_A=n GRID_B=n none: blocks of each kernel                                          hold
 *   COUNT_ONLY        the sequence is not compared                                         violate
 *   SEQUENCE_ONLY     a count above the grid is not reported                               violate
 *   PLAIN_ARRIVAL     the arrival is a load and a store: one is lost                       violate
 *   SKIP_ARRIVAL      a block of A that failed leaves without arriving                     violate
 *   BLOCK_READS       each block reads the sequence at its own start: the gap above        violate
 *   BLOCK_READS LAUNCH_ID  none                                                            hold
 */

#ifndef GRID_A
#define GRID_A 2
#endif
#ifndef GRID_B
#define GRID_B 2
#endif

#define A 0
#define B 1
#define FIRST_SEQUENCE 5
#define ID_OF(kernel) ((kernel) + 1)

/* Device memory of the rank. */
byte control = FIRST_SEQUENCE;              /* sequence of the next call */
byte arrival_sequence = FIRST_SEQUENCE;     /* these three are one 64-bit word */
byte arrival_count;
byte arrival_ids;

/* Kernels. */
bool started[2];
byte sequence_of_kernel[2];
byte blocks_out[2];                         /* blocks that have done their last protocol act */
bool both_in_flight;
byte reports;

#define GRID_OF(kernel) ((kernel) == A -> GRID_A : GRID_B)
#define IS_OUT(kernel) (blocks_out[kernel] == GRID_OF(kernel))
#define IN_FLIGHT(kernel) (started[kernel] && !IS_OUT(kernel))

inline start_block() {
    atomic {
        if
        :: !started[kernel] ->
            started[kernel] = true;
            both_in_flight = both_in_flight || IN_FLIGHT(1 - kernel);
            sequence_of_kernel[kernel] = control
        :: else
        fi;
#ifdef BLOCK_READS
        sequence = control
#else
        sequence = sequence_of_kernel[kernel]
#endif
    }
}

#define IS_LAST (before_count + 1 == GRID_OF(kernel))
#ifdef COUNT_ONLY
#define OTHER_SEQUENCE false
#else
#define OTHER_SEQUENCE (before_sequence != sequence)
#endif
#ifdef SEQUENCE_ONLY
#define ABOVE_GRID false
#else
#define ABOVE_GRID (before_count + 1 > GRID_OF(kernel))
#endif
#ifdef LAUNCH_ID
#define FOREIGN_BLOCKS (IS_LAST && before_ids + ID_OF(kernel) != ID_OF(kernel) * GRID_OF(kernel))
#else
#define FOREIGN_BLOCKS false
#endif

/* What a block makes of the word before its arrival. Only the last one out has more to do. */
inline judge() {
    if
    :: OTHER_SEQUENCE || ABOVE_GRID || FOREIGN_BLOCKS ->
        reports++;
        last = false
    :: else ->
        last = IS_LAST
    fi;
    if
    :: !last -> blocks_out[kernel]++
    :: else
    fi
}

inline read_arrival_word() {
    before_sequence = arrival_sequence;
    before_count = arrival_count;
    before_ids = arrival_ids
}

inline write_arrival_word(new_sequence, new_count, new_ids) {
    arrival_sequence = new_sequence;
    arrival_count = new_count;
    arrival_ids = new_ids
}

inline arrive() {
#ifdef PLAIN_ARRIVAL
    atomic { read_arrival_word() };
    atomic {
        write_arrival_word(before_sequence, before_count + 1, before_ids + ID_OF(kernel));
        judge()
    }
#else
    atomic {
        read_arrival_word();
        write_arrival_word(before_sequence, before_count + 1, before_ids + ID_OF(kernel));
        judge()
    }
#endif
}

inline advance() {
    atomic { write_arrival_word(sequence + 1, 0, 0) };
    atomic {
        control = sequence + 1;
        blocks_out[kernel]++
    }
}

proctype Block(bool kernel; bool fails) {
    byte sequence, before_sequence, before_count, before_ids;
    bool last;

    start_block();
    if
    :: fails ->
        blocks_out[kernel]++
    :: !fails ->
        arrive();
        if
        :: last -> advance()
        :: !last
        fi
    fi
}

#ifdef SKIP_ARRIVAL
#define FAILS(kernel, block) ((kernel) == A && (block) == 0)
#else
#define FAILS(kernel, block) false
#endif

init {
    byte block;
    atomic {
        for (block : 0 .. GRID_A - 1) {
            run Block(A, FAILS(A, block))
        }
        for (block : 0 .. GRID_B - 1) {
            run Block(B, FAILS(B, block))
        }
    }
    atomic {
        IS_OUT(A) && IS_OUT(B) ->
        assert(!both_in_flight || reports > 0);
        assert(both_in_flight || reports == 0);
        assert(both_in_flight || control == FIRST_SEQUENCE + 2);
        assert(both_in_flight || (arrival_sequence == control && arrival_count == 0))
    }
}
