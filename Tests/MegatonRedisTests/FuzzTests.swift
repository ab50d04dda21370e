import MegatonTestSupport
import Testing

/// The same inputs in each run; `scripts/fuzz resp` runs more.
@Suite(.timeLimit(.minutes(2))) struct FuzzTests {
    @Test func anyBytesOfAConnectionAreValuesOrAnErrorHoweverTheyAreCut() throws {
        try Fuzzer(RESPFuzz()).run(3000)
    }
}
