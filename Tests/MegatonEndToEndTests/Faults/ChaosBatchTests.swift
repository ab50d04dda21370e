import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonChaos
@testable import MegatonCluster

/// The checks of scripts/chaos find what they are there for.
@Suite(.timeLimit(.minutes(1))) struct ChaosBatchTests {
    /// A batch of a kind with an outcome for each job, as a healthy cluster would give it.
    private func batch(_ kind: ChaosBatch.Kind) async throws -> (ChaosBatch, [JobOutcome]) {
        let hosts = try await ChaosHosts()
        let dead = try await hosts.dead()
        var random = SeededGenerator(seed: 1)
        let batch = ChaosBatch(
            kind,
            name: "b",
            origin: hosts.fast.url("/"),
            hosts: hosts,
            dead: dead,
            era: 0,
            random: &random
        )
        dead.stop()
        hosts.stop()
        var groups: Set<String> = []
        let outcomes = batch.lines.enumerated().map { number, line in
            let isFirst = line.group.map { groups.insert($0).inserted } ?? true
            let status: JobOutcome.Status = !isFirst ? .deduplicated : line.rule == .failed ? .failed : .done
            return JobOutcome(id: line.id ?? "b.\(number + 1)", source: line.source, status: status)
        }
        return (batch, outcomes)
    }

    @Test(arguments: ChaosBatch.Kind.allCases) func rightOutcomesAreNoViolation(_ kind: ChaosBatch.Kind) async throws {
        let (batch, outcomes) = try await batch(kind)
        #expect(batch.violations(of: outcomes) == [])
        let run = Dictionary(grouping: batch.groupsRun(outcomes)) { $0 }
        #expect(Set(run.keys) == Set(batch.lines.compactMap(\.group)) && run.values.allSatisfy { $0.count == 1 })
        for line in batch.lines { #expect(throws: Never.self) { try Job(json: Data(line.json.utf8)) } }
    }

    @Test func aMissingOutcomeAndASecondOneAreFound() async throws {
        let (batch, outcomes) = try await batch(.plain)
        #expect(batch.violations(of: Array(outcomes.dropLast())).contains { $0.hasPrefix("I1: b.240 ") })
        #expect(batch.violations(of: outcomes + [outcomes[4]]).contains { $0.hasPrefix("I2: b.5 ") })
        let stranger = JobOutcome(id: "c.1", source: "", status: .done)
        #expect(batch.violations(of: outcomes + [stranger]).contains { $0.contains("c.1") })
    }

    @Test func aJobThatEndsOtherwiseThanItsHostAllowsIsFound() async throws {
        let (batch, outcomes) = try await batch(.packs)
        for rule in [ChaosBatch.Rule.done, .failed] {
            let number = try #require(batch.lines.firstIndex { $0.rule == rule })
            var wrong = outcomes
            wrong[number].status = rule == .done ? .failed : .done
            #expect(batch.violations(of: wrong).count == 1)
            wrong[number].status = .deduplicated
            #expect(batch.violations(of: wrong).count == 1)
        }
        let number = try #require(batch.lines.firstIndex { $0.rule == .done })
        var poisoned = outcomes
        poisoned[number].status = .failed
        poisoned[number].error = .init(code: "poison", message: "", retryable: false)
        #expect(batch.violations(of: poisoned) == [])
    }

    @Test func threeOfFiveSeedsHaveOneShard() {
        let plans = (1...5).map(ChaosPlan.init)
        #expect(plans.map(\.shards) == [1, 2, 1, 3, 1])
        #expect(plans.map(\.laterShards) == [1, 3, 1, 4, 1])
        #expect(plans.allSatisfy { $0.places <= 32 && $0.workers.contains { $0.places == 1 } })
    }

    @Test func aPackIsSettledInPartsAndAJobOnce() throws {
        let directory = try TestDirectory()
        defer { directory.remove() }
        func event(_ id: String, _ result: String) -> String {
            #"{"kind":"settle","at":1,"id":"\#(id)","attempt":1,"result":"\#(result)"}"#
        }
        let path = directory.path + "/history.jsonl"
        let lines = [
            event("p", "pack/ok"), event("p", "pack/ok"), event("once", "done/ok"), event("twice", "done/ok"),
            event("twice", "done/ok"),
        ]
        try JobList.write(lines, to: path)
        let violations = try HistoryChecker([path]).violations
        #expect(violations.count == 2 && violations.allSatisfy { $0.contains("twice") })
    }
}
