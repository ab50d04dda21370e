import Foundation
import Testing

@testable import MegatonCLI

/// Lines of a ledger that the shards of a queue may still have.
@Suite struct LedgerLinesTests {
    private func lines(_ text: String) -> [Data] { text.map { Data(String($0).utf8) } }

    private func known(_ text: String) -> LedgerLines {
        var known = LedgerLines()
        for line in lines(text) { known.add(line) }
        return known
    }

    /// Fault: of several duplicates of a job, whose lines are equal, a continued ledger had only one.
    @Test func aLineIsLeftOutAsOftenAsTheLedgerHasIt() {
        var known = known("abb")
        #expect(known.missing(from: lines("babbba")) == lines("bba"))
        #expect(known.count == 0)
        #expect(known.missing(from: lines("ab")) == lines("ab"))
    }

    /// Fault: a new line was left out, as the ledger has an equal one that was acknowledged long ago.
    @Test func noMoreLinesAreLeftOutThanRedisMayStillHave() {
        var known = known("aab")
        known.limit(to: 1)
        #expect(known.missing(from: lines("aaab")) == lines("aab"))
        known.limit(to: -3)
        #expect(known.count == 0)
    }
}
