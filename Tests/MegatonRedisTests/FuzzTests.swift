import MegatonTestSupport
import Testing

/// The same inputs each time; `scripts/fuzz resp` looks for more.
@Suite(.timeLimit(.minutes(2))) struct FuzzTests {
    @Test func anyBytesOfAConnectionAreValuesOrAnErrorHoweverTheyAreCut() throws {
        try Fuzzer(RESPFuzz()).run(3000)
    }
}
