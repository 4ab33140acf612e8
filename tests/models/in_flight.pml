/*
 * In flight: one arrival word notices two kernels of one communicator that run at the same time.
 *
 * What is modelled
 *   Two kernels, A and B, of one rank, as when two graphs are replayed on two streams. Each has a
 *   grid of blocks and a launch number that the other does not have. Every block reads the call
 *   sequence from the control line for itself, when it starts; a kernel is in flight from the first
 *   such read to its last act. A block's last protocol act is its arrival: an atomic add of {0,
 *   launch number, 1} on one 64-bit word {sequence, sum of launch numbers, arrivals} that returns
 *   the word before the add. Another sequence than the one read, a count above the grid, or, for
 *   the last block out, another sum than grid * its own launch number is reported as corrupt. The
 *   last block out stores {sequence + 1, 0, 0}, then the control line: two steps, between which
 *   other blocks may arrive. B may start at any moment: after A's last act (properly ordered) or
 *   before it (in flight together).
 *
 * Property
 *   Two kernels in flight together are reported by at least one block; a properly ordered pair by
 *   none, and it advances the sequence by two.
 *
 * Rule shown (calls, streams, graphs, early launch)
 *   A block arrives once as its last protocol act; the last one out advances; another sequence, a
 *   count above the grid, or launch numbers that are not all its own is "two calls in flight";
 *   every block arrives, failed or not.
 *
 * Why a launch number
 *   Without it early blocks of both kernels may add up to one whole grid and advance the sequence
 *   before the other blocks start; these read the new sequence and add up to the second grid, and
 *   nobody finds anything wrong.
 *
 * Switches            fault planted                                                        must
 *   GRID_A=n GRID_B=n none: blocks of each kernel                                          hold
 *   NO_LAUNCH_NUMBER  the arrival adds 1 only (no fault with one block each)               violate
 *   COUNT_ONLY        the sequence is not compared                                         violate
 *   SEQUENCE_ONLY     a count above the grid is not reported                               violate
 *   PLAIN_ARRIVAL     the arrival is a load and a store: one is lost                       violate
 *   SKIP_ARRIVAL      a block of A that failed leaves without arriving                     violate
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
#define LAUNCH_NUMBER(kernel) ((kernel) + 1)

/* Device memory of the rank. */
byte control = FIRST_SEQUENCE;              /* control line: sequence of the next call */
byte arrival_sequence = FIRST_SEQUENCE;     /* these three are one 64-bit word */
byte arrival_numbers;
byte arrival_count;

/* Kernels. */
bool started[2];
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
            both_in_flight = both_in_flight || IN_FLIGHT(1 - kernel)
        :: else
        fi;
        sequence = control
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
#ifdef NO_LAUNCH_NUMBER
#define FOREIGN_BLOCKS false
#else
#define FOREIGN_BLOCKS (IS_LAST && before_numbers != LAUNCH_NUMBER(kernel) * before_count)
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
    before_numbers = arrival_numbers;
    before_count = arrival_count
}

inline write_arrival_word(new_sequence, new_numbers, new_count) {
    arrival_sequence = new_sequence;
    arrival_numbers = new_numbers;
    arrival_count = new_count
}

inline add_to_arrival_word() {
    write_arrival_word(before_sequence, before_numbers + LAUNCH_NUMBER(kernel), before_count + 1)
}

inline arrive() {
#ifdef PLAIN_ARRIVAL
    atomic { read_arrival_word() };
    atomic {
        add_to_arrival_word();
        judge()
    }
#else
    atomic {
        read_arrival_word();
        add_to_arrival_word();
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
    byte sequence, before_sequence, before_numbers, before_count;
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
