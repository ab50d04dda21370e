import Foundation
import MegatonCore
import Testing

@testable import MegatonServer

/// The bodies of operators' requests.
@Suite struct OperatorBodyTests {
    private static func problem<Value: Decodable>(of json: String, as type: Value.Type) -> String? {
        do {
            _ = try JSONDecoder().decode(type, from: Data(json.utf8))
            return nil
        } catch {
            return (error as? DecodingError)?.fieldProblem?.description ?? "\(error)"
        }
    }

    private static let selections: [(String, DeadJobChoice)] = [
        (#"{"ids":["a","b/c"]}"#, .ids(["a", "b/c"])), (#"{"batch":"b"}"#, .batch("b")),
        (#"{"batch":""}"#, .batch("")), (#"{"error":"not_found"}"#, .error("not_found")), (#"{"all":true}"#, .all),
    ]

    @Test(arguments: selections) func aSelectionOfDeadJobsHasOneField(_ json: String, _ expected: DeadJobChoice) throws
    {
        #expect(try JSONDecoder().decode(DeadJobChoice.self, from: Data(json.utf8)) == expected)
    }

    @Test(arguments: [
        (#"{}"#, "must have one"), (#"{"ids":["a"],"all":true}"#, "has 2 of"), (#"{"ids":[]}"#, "ids has 0 ids"),
        (#"{"ids":["a",1]}"#, "ids[1] is 1; allowed are texts in quotes"), (#"{"ids":[["a"]]}"#, "ids[0] is a list;"),
        (#"{"ids":[""]}"#, "which no job has"), (#"{"ids":"a"}"#, "ids is \"a\""), (#"{"batch":"a b"}"#, "batch is"),
        (#"{"error":""}"#, "error is"), (#"{"all":false}"#, "selects no job"),
        (#"{"al":true}"#, "did you mean \"all\""),
        (#"[]"#, "is a list"), (#"{"all":null}"#, "selects no job"),
    ]) func anotherSelectionIsRefused(_ json: String, _ words: String) {
        let problem = Self.problem(of: json, as: DeadJobChoice.self)
        #expect(problem?.contains(words) == true, "\(problem ?? "none")")
    }

    @Test func theNumberOfIdsIsLimited() {
        let ids = (0...DeadJobChoice.maximumIDs).map { "\"\($0)\"" }.joined(separator: ",")
        let problem = Self.problem(of: "{\"ids\":[\(ids)]}", as: DeadJobChoice.self)
        #expect(problem?.contains("has 101 ids; allowed are lists of 1 to 100") == true, "\(problem ?? "none")")
    }

    @Test(arguments: [
        #"{"urls":["https://example.org/a.jpg?b"]}"#, #"{"hosts":["example.org:8080"],"dry_run":true}"#,
        #"{"prefixes":["https://example.org/2026/"],"renditions":["s"]}"#,
    ]) func entriesOfTheCacheAreSelectedAsByTheCommand(_ json: String) throws {
        let choice = try JSONDecoder().decode(PurgeChoice.self, from: Data(json.utf8))
        #expect(choice.isDryRun == json.contains("dry_run"))
    }

    @Test(arguments: [
        (#"{}"#, "names no urls"), (#"{"dry_run":true}"#, "names no urls"),
        (#"{"urls":["a.jpg"]}"#, "urls has \"a.jpg\""), (#"{"hosts":["h",7]}"#, "hosts[1] is 7; allowed are texts"),
        (#"{"hosts":["https://h/"]}"#, "hosts has"), (#"{"prefixes":["h/a"]}"#, "prefixes has"),
        (#"{"renditions":[""]}"#, "renditions has"), (#"{"url":["https://h/a"]}"#, "did you mean \"urls\""),
        (#"{"hosts":["h"],"dry_run":1}"#, "dry_run is 1"), (#"{"hosts":["h"],"dry_run":null}"#, "dry_run is null"),
        (#"{"hosts":["h"],"urls":null}"#, "urls is null"),
    ]) func anotherSelectionOfEntriesIsRefused(_ json: String, _ words: String) {
        let problem = Self.problem(of: json, as: PurgeChoice.self)
        #expect(problem?.contains(words) == true, "\(problem ?? "none")")
    }
}
