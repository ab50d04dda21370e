import MegatonTestSupport
import Testing

/// The same inputs in each run; `scripts/fuzz job` runs more.
@Suite(.timeLimit(.minutes(2))) struct FuzzTests {
    @Test func anyBytesAreAJobOrAnErrorWithASentence() throws {
        try Fuzzer(JobFuzz()).run(4000)
    }
}
