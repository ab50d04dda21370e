import MegatonTestSupport
import Testing

/// The same inputs each time; `scripts/fuzz job` looks for more.
@Suite(.timeLimit(.minutes(2))) struct FuzzTests {
    @Test func anyBytesAreAJobOrAnErrorWithASentence() throws {
        try Fuzzer(JobFuzz()).run(4000)
    }
}
