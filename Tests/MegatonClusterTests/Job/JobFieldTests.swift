import Foundation
import MegatonPipeline
import Testing

@testable import MegatonCluster

/// Ids, labels and messages in a job's JSON, and the fields that an invalid job keeps.
@Suite struct JobFieldTests {
    private func job(_ fields: String) throws -> Job { try Job(json: Data(#"{"source":"x",\#(fields)}"#.utf8)) }

    private func message(_ json: String) -> String {
        do {
            return "\(try Job(json: Data(json.utf8)))"
        } catch {
            return error.message
        }
    }

    @Test(
        arguments: [
            ("42", "42"), ("0", "0"), ("-7", "-7"), ("9007199254740993", "9007199254740993"), ("42.0", "42"),
            ("1e2", "100"),
            ("9223372036854775808", "9223372036854775808"), ("18446744073709551615", "18446744073709551615"),
            ("\"42\"", "42"), ("null", nil),
        ] as [(String, String?)]
    )
    func wholeNumbersAreIds(_ json: String, _ id: String?) throws {
        #expect(try job("\"id\":\(json)").id == id)
        #expect(JobIdentity(Data("{\"id\":\(json)}".utf8)).id == id)
    }

    @Test(arguments: [
        ("1.5", "id is 1.5;"), ("true", "id is true;"), ("\"\"", "id is \"\";"), ("18446744073709551616", "id is 1.84"),
        ("[1]", "id is a list;"), ("{}", "id is an object;"), ("\"a b\"", "id is \"a b\";"), ("\"ä\"", "id is \"ä\";"),
        ("\"\(String(repeating: "x", count: 129))\"", "xxx…\";"), ("\".\"", "id is \".\";"),
        ("\"..\"", "id is \"..\";"),
    ])
    func otherIdsAreRefusedByName(_ json: String, _ start: String) {
        let message = message(#"{"source":"x","id":\#(json)}"#)
        #expect(message.contains(start) && message.contains("whole numbers"), "\(message)")
        #expect(JobIdentity(Data("{\"batch\":\"b\",\"id\":\(json)}".utf8)).id == nil)
        #expect(JobIdentity(Data("{\"batch\":\"b\",\"id\":\(json)}".utf8)).batch == "b", "what is good stays")
    }

    @Test(arguments: [
        (#"{"id":"a"}"#, "source is missing; allowed are URLs"), (#"{"source":7}"#, "source is 7; allowed are URLs"),
        (#"{"source":"x","attempts":"3"}"#, #"attempts is "3"; allowed are whole numbers from 1 to 100"#),
        (#"{"source":"x","attempts":2.5}"#, "attempts is 2.5; allowed"),
        (#"{"source":"x","attempts":1e99}"#, "attempts is 1e+99; allowed"),
        (#"{"source":"x","attempts":101}"#, "attempts is 101; allowed are 1 to 100"),
        (#"{"source":"x","priority":"hihg"}"#, #"is "hihg"; allowed are high, normal, bulk; did you mean "high"?"#),
        (#"{"source":"x","kind":"prefetch"}"#, #"kind is "prefetch"; allowed are process, fetch"#),
        (#"{"source":"x","batch":7}"#, "batch is 7; allowed are texts of 1 to 128"),
        (#"{"source":"x","batch":"a/b"}"#, #"batch is "a/b"; allowed are texts"#),
        (#"{"source":"x","batch":".."}"#, #"batch is ".."; allowed are texts of 1 to 128 of the characters"#),
        (#"{"source":"x","preset":[]}"#, "preset is a list; allowed are names"),
        (#"{"source":"x","output":{}}"#, "output is an object; allowed are texts"),
        (#"{"source":"x","output":"/srv"}"#, #"output is "/srv": "#),
        (#"{"source":"x","renditions":{"width":3}}"#, "renditions is an object; allowed are lists"),
        (#"{"source":"x","renditions":[{"width":3,"format":"jpgg"}]}"#, #"renditions[0].format is "jpgg"; allowed"#),
        (#"{"source":"x","renditions":[{"width":3},7]}"#, "renditions[1] is 7; allowed is an object"),
        (#"{"source":"x","renditions":[{"width":3,"quality":0}]}"#, "renditions[0].quality is 0; allowed are 1 to 100"),
        (#"{"source":"x","rendition":[]}"#, #"did you mean "renditions"?"#),
        (#"{"source":"x","labels":[1]}"#, "labels is a list; allowed are objects"),
        (#"{"source":"x","labels":{"a":null}}"#, "labels.a is null; allowed are texts, numbers, true and false"),
        (#"{"source":"x","labels":{"a":{"b":1}}}"#, "labels.a is an object; allowed"),
        (#"{"source":"x","labels":{"a":12345678901234567891}}"#, "labels.a is a number with too many digits"),
        (#"{"source":"x","#, "not valid JSON"), (#"{"source":"\ud800"}"#, "source is not readable; allowed are URLs"),
        (#"{"sorce":"x"}"#, #"the job has an unknown field "sorce"; known are"#),
        // Fields that only Megaton sets are not offered.
        (#"{"sorce":"x"}"#, "priority, refresh, reload, renditions, replace, reply, source, traceparent; did you mean"),
    ])
    func aMessageNamesFieldValueAndWhatIsAllowed(_ json: String, _ part: String) {
        let message = message(json)
        #expect(message.contains(part), "\(message)")
        #expect(!message.contains("Cannot initialize") && !message.contains("Swift"), "\(message)")
    }

    @Test func aSecretInThePlaceOfACredentialsNameIsNotShown() {
        for value in ["\"se cret\"", "[\"se cret\"]", "7"] {
            let message = message(#"{"source":"x","credential":\#(value)}"#)
            #expect(message.hasPrefix("credential is not the name of one") && !message.contains("cret"), "\(message)")
        }
    }

    @Test func labelsComeBackAsTheyWere() throws {
        let text = #"{"a":"x","b":12,"c":1.5,"d":true,"e":"ü\"","f":-3,"g":9007199254740993,"h":1e+300}"#
        let read = try #require(try job("\"labels\":\(text)").labels)
        #expect(read["g"] == .integer(9_007_199_254_740_993) && read["c"] == .number(1.5) && read["d"] == .bool(true))
        #expect(WireJSON.text(read) == text)
        let again = try Job(json: Job(source: "x", labels: read).json(), wasValidated: true)
        #expect(again.labels == read)
        let outcome = JobOutcome(id: "1", source: "x", status: .done, labels: read)
        #expect(try JSONDecoder().decode(JobOutcome.self, from: outcome.json()).labels == read)
    }

    @Test func labelsHaveALimit() throws {
        func labels(_ length: Int) -> String { #""labels":{"a":"\#(String(repeating: "x", count: length))"}"# }
        #expect(try job(labels(1016)).labels?.count == 1)
        #expect(message("{\"source\":\"x\",\(labels(1017))}") == "labels has 1025 bytes of JSON; allowed are 1024")
        #expect(JobIdentity(Data("{\"id\":1,\(labels(1017))}".utf8)) == JobIdentity(Data("{\"id\":1}".utf8)))
    }

    @Test func validFieldsOfAnInvalidJobStay() {
        func identity(_ json: String, isCut: Bool = false) -> JobIdentity { JobIdentity(Data(json.utf8), isCut: isCut) }
        let whole = identity(
            #"{"renditions":[{"format":"jpgg"}, "]"],"id" : 7,"labels":{"a":1,"b":null},"batch":"b","source":"s"}"#
        )
        #expect(whole.id == "7" && whole.batch == "b" && whole.labels == ["a": .integer(1)] && whole.source == "s")
        #expect(identity(#"{"id":"a","batch":true}"#).id == "a")
        #expect(identity(#"{"id":"a","source":"\ud800"}"#).id == "a", "a text that no decoder takes spoils no other")
        #expect(JobIdentity(Data([UInt8](#"{"source":"caf"#.utf8) + [0xE9] + [UInt8](#"","id":"a"}"#.utf8))).id == "a")
        #expect(identity(#"{"id":"a",}"#).id == "a", "Foundation's decoder accepts the last comma")
        for text in [
            "", "{", "[]", "7", "\"id\"", #"{"id":"a""#, #"{"id":"a",,}"#, #"{,}"#, #"{"id":"a"}}"#, #"{"id":"a"} x"#,
            #"{"id":"a","b":}"#, #"{"id":"a","b":nonsense}"#, #"{id:"a"}"#, #"{"id""a"}"#, #"{"id":"a","b":"x}"#,
        ] { #expect(identity(text).id == nil, "\(text) is no JSON") }
        // Only the beginning of an oversized job is known.
        let cut = identity(#"{"id":"a","batch":"b","source":"data:AAAA"#, isCut: true)
        #expect(cut.id == "a" && cut.batch == "b" && cut.source == nil)
        #expect(identity(#"{"id":12"#, isCut: true).id == nil, "more digits may follow")
    }

    @Test func keysAreReadAsTheyAreWritten() {
        for (batch, id) in [(nil, "a"), ("b", "a"), ("b.c:d-e_f", "1")] as [(String?, String)] {
            let key = JobKey(batch: batch, id: id)
            #expect(JobKey(key.text) == key)
        }
        #expect(JobKey(batch: "", id: "a") == JobKey("a"))
        #expect(JobKey("b/a/7.1").id == "a" && JobKey("b/a/7.1").batch == "b")
        #expect(JobKey("/a/7.1").id == "a" && JobKey("/a/7.1").batch == nil)
    }
}
