import Foundation
import MegatonCluster
import MegatonTestSupport
import Testing

/// `docs/job.schema.json` says about jobs what the program says. Real outcomes are validated where they are made.
@Suite(.timeLimit(.minutes(2))) struct SchemaTests {
    private static let validator = SchemaValidator("job")

    private static let valid = [
        #"{"source":"https://h/a.jpg"}"#,
        #"{"id":42,"kind":"process","source":"s3://b/k","preset":"web","priority":"high","attempts":9}"#,
        #"{"id":null,"source":"data:,x","batch":"b","batchSize":3,"credential":"c","failOn":"none","replace":"all","reload":true}"#,
        #"{"source":"https://h/a","renditions":[{"name":"s","width":9,"format":"webp","lossless":true}]}"#,
        #"{"source":"https://h/a","output":"file:///srv/{stem}-{name}.{ext}","labels":{"a":1,"b":"c","d":false}}"#,
        #"{"source":"https://h/a","output":"s3://thumbs/{id}-{name}.{ext}"}"#,
        #"{"source":"https://h/a","key":"k","keyTTL":604800,"notBefore":5,"ignoreRememberedFailures":true}"#,
        #"{"source":"https://h/a","notBefore":"2026-11-23T08:00:00Z","reply":{"list":"a:b","ttl":1}}"#,
        #"{"kind":"fetch","source":"https://h/a","reply":{"list":"l"}}"#,
        #"{"source":"https://h/a","reply":{"webhook":"https://example.com/hooks/1?a=b"}}"#,
        #"{"source":"https://h/a","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
    ]

    private static let invalid = [
        #"{"id":"a"}"#, #"{"source":""}"#, #"{"source":7}"#, #"{"source":"https://h/a","sourse":"b"}"#,
        #"{"source":"https://h/a","id":"a b"}"#, #"{"source":"https://h/a","id":1.5}"#,
        #"{"source":"https://h/a","kind":"make"}"#, #"{"source":"https://h/a","attempts":0}"#,
        #"{"source":"https://h/a","priority":"urgent"}"#, #"{"source":"https://h/a","renditions":[]}"#,
        #"{"source":"https://h/a","renditions":[{"width":0}]}"#, #"{"source":"https://h/a","batch":""}"#,
        #"{"source":"https://h/a","renditions":[{"width":1}],"preset":"web"}"#,
        #"{"source":"https://h/a","output":"s3://{host}/b"}"#, #"{"source":"https://h/a","output":"s3://thumbs"}"#,
        #"{"source":"https://h/a","output":"https://h/b"}"#, #"{"source":"https://h/a","keyTTL":60}"#,
        #"{"source":"https://h/a","key":""}"#, #"{"source":"https://h/a","batchSize":2}"#,
        #"{"source":"https://h/a","notBefore":-1}"#,
        #"{"source":"https://h/a","labels":{"a":[]}}"#, #"{"source":"https://h/a","reload":"yes"}"#,
        #"{"source":"https://h/a","reply":{"ttl":5}}"#, #"{"source":"https://h/a","reply":{"list":"megaton:x"}}"#,
        #"{"source":"https://h/a","reply":{"list":"l","ttl":604801}}"#,
        #"{"source":"https://h/a","reply":{}}"#, #"{"source":"https://h/a","reply":{"webhook":"ftp://h/a"}}"#,
        #"{"source":"https://h/a","reply":{"webhook":"https://h/a","list":"l"}}"#,
        #"{"source":"https://h/a","reply":{"webhook":"https://h/a","ttl":9}}"#,
        #"{"source":"https://h/a","traceparent":"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}"#,
        #"{"source":"https://h/a","traceparent":"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"}"#,
    ]

    @Test func theSchemaAcceptsTheJobsThatTheProgramAccepts() async throws {
        let jobs = Self.valid.map { Data($0.utf8) }
        for job in jobs { #expect(throws: Never.self) { try Job(json: job) } }
        #expect(try await Self.validator.faults(of: jobs).isEmpty)
        // A job in its full form, as outcomes have it.
        let written = try jobs.map { try Job(json: $0).json() }
        #expect(try await Self.validator.faults(of: written).isEmpty)
    }

    @Test func theSchemaRefusesTheJobsThatTheProgramRefuses() async throws {
        let jobs = Self.invalid.map { Data($0.utf8) }
        for (job, text) in zip(jobs, Self.invalid) {
            #expect(throws: JobError.self, "\(text)") { try Job(json: job) }
        }
        let faults = try await Self.validator.faults(of: jobs)
        let accepted = Self.invalid.indices.filter { index in
            !faults.contains { $0.hasPrefix("line \(index + 1): ") }
        }
        #expect(accepted.isEmpty, "\(accepted.map { Self.invalid[$0] })")
    }

    @Test func packsAreJobsToo() async throws {
        let packs = [
            #"{"sources":["https://h/a",{"id":7,"source":"https://h/b","key":"k","labels":{"a":1}}],"batch":"b"}"#,
            #"{"sources":[]}"#, #"{"sources":["https://h/a"],"source":"https://h/b"}"#,
            #"{"sources":[{"url":"https://h/a"}]}"#,
        ]
        let faults = try await Self.validator.faults(of: packs.map { Data($0.utf8) })
        #expect(faults.map { String($0.prefix(6)) } == ["line 2", "line 3", "line 4"], "\(faults)")
    }

    /// The message about an unknown field has the names of all fields that clients write.
    @Test func theSchemaHasTheFieldsOfJobs() throws {
        struct Schema: Decodable {
            struct Property: Decodable { let description: String }
            let properties: [String: Property]
        }
        let file = Data(try Repository.text("docs/job.schema.json").utf8)
        let schema = try JSONDecoder().decode(Schema.self, from: file)
        var message = ""
        do {
            _ = try Job(json: Data(#"{"source":"https://h/a","zzzzzzzz":1}"#.utf8))
        } catch {
            message = error.message
        }
        let names = message.components(separatedBy: "known are ").last?.components(separatedBy: ", ") ?? []
        #expect(Set(names).union(["sources", "requeuedFrom"]) == Set(schema.properties.keys), "\(message)")
    }
}
