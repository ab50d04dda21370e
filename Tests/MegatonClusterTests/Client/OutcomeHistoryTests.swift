import Foundation
import Testing

@testable import MegatonCluster

/// How a reader recognizes outcomes that it has, after Redis has returned to an earlier state.
@Suite struct OutcomeHistoryTests {
    private func line(_ id: String, _ worker: String = "a") -> Data {
        Data(#"{"attempts":1,"error":{"message":"\"id\":\"x\""},"id":"\#(id)","worker":"\#(worker)"}"#.utf8)
    }

    private func page(
        _ state: OutcomePage.State = .continues,
        after start: Int,
        _ ids: String...,
        worker: String = "a"
    ) -> OutcomePage {
        OutcomePage(state: state, start: start, lines: ids.map { line($0, worker) })
    }

    private func ids(_ lines: [Data]) throws -> [String?] {
        try lines.map { try #require(JSONSerialization.jsonObject(with: $0) as? [String: Any])["id"] as? String }
    }

    @Test func outcomesThatTheReaderHasAreSkippedInAnyOrder() throws {
        var history = OutcomeHistory()
        #expect(try ids(history.accept(page(after: 0, "a", "b", "c", "d"))) == ["a", "b", "c", "d"])
        #expect(history.number == 4 && !history.digest.isEmpty)
        // Redis has only the first two, and the others end again, in another order and with a new one between.
        #expect(history.accept(page(.wentBack, after: 1, "b", worker: "a")).isEmpty)
        #expect(history.number == 2 && history.returns == 1)
        #expect(try ids(history.accept(page(after: 2, "d", "e", "c", worker: "z"))) == ["e"])
        #expect(history.number == 5)
        #expect(history.ids(missingFrom: ["a", "b", "c", "d", "e", "f"], limit: 9) == ["f"])
        #expect(history.isExact && history.deleted == 0)
    }

    @Test func aSecondReturnForgetsNothing() throws {
        var history = OutcomeHistory()
        _ = history.accept(page(after: 0, "a", "b", "c", "d"))
        #expect(history.accept(page(.wentBack, after: 2, "d")).isEmpty)
        #expect(history.accept(page(.wentBack, after: 1)).isEmpty)
        #expect(history.accept(page(after: 1, "c", "d", "b")).isEmpty)
        #expect(try ids(history.accept(page(after: 4, "e"))) == ["e"])
        #expect(history.returns == 2)
    }

    /// A repeated id has several outcomes, and each of them a line.
    @Test func outcomesOfOneIdAreCounted() throws {
        var history = OutcomeHistory()
        _ = history.accept(page(after: 0, "a", "a", "b"))
        #expect(try ids(history.accept(page(.wentBack, after: 1, "a", "a", "b"))) == ["a"])
        #expect(history.ids(missingFrom: ["a", "a", "a", "b", "b"], limit: 9) == ["b"])
    }

    @Test func deletedOutcomesLeaveAGap() throws {
        var history = OutcomeHistory(after: 10)
        #expect(try ids(history.accept(page(.deleted, after: 15, "a"))) == ["a"])
        #expect(history.deleted == 5 && history.number == 16)
        #expect(history.accept(page(.wentBack, after: 13, "a")).isEmpty, "the gap stands for no id")
        #expect(history.isExact)
        #expect(history.accept(page(.wentBack, after: 5)).isEmpty && !history.isExact)
    }

    @Test func aFileIsContinuedWhateverTheOrderOfItsLines() throws {
        var lines = ["c", "a", "b"].map { line($0) }[...]
        var history = OutcomeHistory(lines: { lines.popFirst() })
        #expect(history.number == 3)
        #expect(try ids(history.accept(page(.wentBack, after: 1, "b", "c", "d", "a"))) == ["d"])
        #expect(history.isExact)
    }

    /// Fault: a reader that was killed after it had written a page, and before it acknowledged that, could not continue
    /// its ledger if that began later than the batch.
    @Test func aFileThatBeganLaterContinuesAtItsMark() {
        let all = ["c", "a", "b"].map { line($0) }
        func number(_ last: Data, _ number: Int) -> Int {
            var (lines, reader) = (all[...], OutcomeHistory())
            _ = reader.accept(OutcomePage(state: .continues, start: 0, lines: [last]))
            let mark = "\(number):\(reader.digest)"
            let history = OutcomeHistory(lines: { lines.popFirst() }, mark: mark)
            #expect(history.lines == 3)
            return history.number
        }
        #expect(number(all[2], 15) == 15)
        #expect(number(all[0], 13) == 15, "two lines were not acknowledged")
        #expect(number(line("other"), 13) == 3)
        #expect(number(all[0], 1) == 3)
    }

    @Test func theOldestOutcomesAreForgotten() throws {
        var history = OutcomeHistory(limit: 8)
        for number in 0..<20 { _ = history.accept(page(after: number, "j\(number)")) }
        #expect(history.number == 20)
        #expect(history.accept(page(.wentBack, after: 18, "j19")).isEmpty && history.isExact)
        #expect(try ids(history.accept(page(.wentBack, after: 2, "j2", "j19"))) == ["j2"])
        #expect(!history.isExact)
    }
}
