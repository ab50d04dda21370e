import Foundation
import MegatonPipeline
import Testing

@testable import MegatonCluster

/// The wire form of packs, and what the coordinator makes of them.
@Suite struct PackTests {
    private func read(_ json: String) throws -> Pack.Pushed? { try Pack.read(Data(json.utf8)) { "made" } }

    private func message(_ json: String) -> String? {
        do {
            _ = try read(json)
            return nil
        } catch let error as JobError {
            return error.message
        } catch {
            return "\(error)"
        }
    }

    private func list(_ count: Int) -> String {
        (0..<count).map { "\"http://a.example/\($0)\"" }.joined(separator: ",")
    }

    private func candidates(
        _ json: String,
        intake: String = "",
        deduplicates: Bool = false,
        idsAreUnique: Bool = false
    ) -> [JobValidator.Candidate] {
        JobValidator(presets: [:]).validate(Data(json.utf8), batch: intake)
            .admitted(deduplicates: deduplicates, idsAreUnique: idsAreUnique)
    }

    private func sizes(_ candidates: [JobValidator.Candidate]) -> [Int] {
        candidates.map { candidate in
            switch candidate.verdict {
            case .pack(let pack, _, _): pack.sources.count
            case .valid: 1
            case .invalid: -1
            }
        }
    }

    @Test func aJobWithOneSourceIsNoPack() throws {
        #expect(try read(#"{"source":"http://a.example/1"}"#) == nil)
        #expect(try read(#"{"source":"http://a.example/1","labels":{"sources":"x"}}"#) == nil)
    }

    @Test func sourcesAreTextsOrObjects() throws {
        let pushed = try #require(
            try read(
                #"{"attempts":2,"id":"p","labels":{"a":1},"sources":["http://a.example/1", "#
                    + #"{"id":7,"source":"http:\/\/a.example\/2"},{"id":"x","labels":{"b":true},"#
                    + #""output":"file:///out/x-{name}.{ext}","source":"http://a.example/3"}]}"#
            )
        )
        #expect(pushed.invalid.isEmpty)
        let jobs = pushed.pack.sources.map(pushed.pack.job)
        #expect(jobs.map(\.id) == ["p.1", "7", "x"])
        #expect(jobs.map(\.source) == (1...3).map { "http://a.example/\($0)" })
        let (first, last): (Job.Labels, Job.Labels) = (["a": .integer(1)], ["b": .bool(true)])
        #expect(jobs.map(\.labels) == [first, first, last])
        #expect(jobs.map(\.output) == [nil, nil, "file:///out/x-{name}.{ext}"])
        #expect(jobs.allSatisfy { $0.attempts == 2 && $0.validationError == nil })
        let again = try Pack(json: pushed.pack.json())
        #expect(again == pushed.pack)
    }

    @Test(arguments: [1, 2, 256]) func aPackIsReadBack(_ count: Int) throws {
        let pushed = try #require(try read("{\"sources\":[\(list(count))]}"))
        #expect(pushed.pack.sources.count == count && pushed.hasMadeIDs && pushed.pack.shared.id == "made")
        #expect(pushed.pack.host == "a.example:80")
        #expect(try Pack(json: pushed.pack.json()) == pushed.pack)
        // The rest of a pack keeps the ids of its sources.
        let rest = pushed.pack.with(Array(pushed.pack.sources.suffix(1)))
        #expect(try Pack(json: rest.json()).sources.map(\.id) == ["made.\(count)"])
    }

    @Test func aPackThatCannotBeAcceptedIsRefusedAsAWhole() {
        #expect(message(#"{"sources":[]}"#) == "sources has 0 sources; allowed are 1 to 256")
        #expect(message("{\"sources\":[\(list(257))]}") == "sources has 257 sources; allowed are 1 to 256")
        #expect(message(#"{"sources":{"a":1}}"#)?.hasPrefix("sources is no list") == true)
        #expect(
            message(#"{"source":"http://a.example","sources":["http://a.example"]}"#)?.hasPrefix("source goes") == true
        )
        #expect(message(#"{"sources":["http://a.example"],"sources":["http://a.example"]}"#) == "sources occurs twice")
        // Fault: 100,000 of them were compared with the fields of each source, for minutes.
        let many = String(repeating: #""batch":"b","#, count: 65)
        #expect(message(#"{\#(many)"sources":["http://a.example"]}"#)?.contains("more than 64 fields") == true)
        #expect(message(#"{"key":"k","sources":["http://a.example"]}"#)?.hasPrefix("key goes with one source") == true)
        #expect(message(#"{"attempts":0,"sources":["http://a.example"]}"#)?.hasPrefix("attempts is 0") == true)
        #expect(message(#"{"colour":1,"sources":["http://a.example"]}"#)?.contains("colour") == true)
        let longID = String(repeating: "a", count: 125)
        #expect(message("{\"id\":\"\(longID)\",\"sources\":[\"http://a.example\"]}")?.contains("124") == true)
        let renditions = (0..<32).map { "{\"name\":\"\(String(repeating: "n", count: 600))\($0)\"}" }
        let large = "{\"renditions\":[\(renditions.joined(separator: ","))],\"sources\":[\(list(256))]}"
        #expect(message(large)?.contains("smaller packs") == true || message(large)?.contains("renditions") == true)
    }

    @Test func anInvalidSourceEndsByItself() {
        let json =
            #"{"id":"p","batch":"b","sources":["http://a.example/1",null,"",{"sources":["http://a.example/2"]},"#
            + #"{"id":"no good","source":"http://a.example/3"},"http://a.example/4"]}"#
        let all = candidates(json, idsAreUnique: true)
        #expect(sizes(all) == [2, -1, -1, -1, -1])
        let messages = all.compactMap { candidate in
            if case .invalid(let dead, _, _) = candidate.verdict { dead.message } else { nil }
        }
        #expect(messages[0].hasPrefix("sources[1] is no source"), "\(messages)")
        #expect(messages[1].hasPrefix("sources[2].source is empty"), "\(messages)")
        #expect(messages[2].hasPrefix("sources[3] has the field \"sources\""), "\(messages)")
        #expect(messages[3].hasPrefix("sources[4]"), "\(messages)")
        #expect(all.map(\.key.text) == ["b/p", "b/p.2", "b/p.3", "b/p.4", "b/p.5"])
    }

    /// A list of URLs alone is read at once, with the same messages.
    @Test func anInvalidURLInAListOfURLsEndsByItself() throws {
        let read = try #require(try read(#"{"id":"p","sources":["http://a.example/1","","http://a.example/3"]}"#))
        #expect(read.pack.sources.map(\.id) == ["p.1", "p.3"] && read.hasMadeIDs == false)
        #expect(read.invalid.map(\.id) == ["p.2"])
        #expect(read.invalid[0].message.hasPrefix("sources[1].source is empty"))
        #expect((try? JSONDecoder().decode([String: String].self, from: read.invalid[0].json))?["source"] == "")
        for list in [#"["a",]"#, #"["a" "b"]"#, #"["a""#, #""a""#] {
            #expect((try? self.read(#"{"sources":\#(list)}"#)) == nil)
        }
        let escaped = try #require(try self.read(#"{"sources":["http:\/\/a.example\/1"]}"#))
        #expect(escaped.pack.sources.map(\.source) == ["http://a.example/1"])
        #expect(sizes(candidates(#"{"sources":["http://a.example/1","http://a.example.org/2"]}"#)) == [1, 1])
    }

    /// Otherwise its batch would wait for the others for ever.
    @Test func eachSourceOfAPackThatIsRefusedIsRefused() {
        let object = #"{"id":"x","labels":{"b":2},"source":"http://a.example/1"}"#
        let json = #"{"id":"p","labels":{"a":1},"preset":"none","sources":["http://a.example/0","# + object + "]}"
        let all = candidates(json, intake: "b", idsAreUnique: true)
        #expect(sizes(all) == [-1, -1] && all.allSatisfy(\.isOwn))
        #expect(all.map(\.key.text) == ["b/p.1", "b/x"])
        #expect(all.map(\.labels) == [["a": .integer(1)], ["b": .integer(2)]])
        for (index, candidate) in all.enumerated() {
            guard case .invalid(let dead, let source, _) = candidate.verdict else { continue }
            #expect(source == "http://a.example/\(index)" && dead.message.hasPrefix("preset is \"none\""))
            // As soon as the preset is there, `dead requeue` runs it.
            #expect((try? Job(json: Data(dead.job.utf8)))?.preset == "none")
        }
        #expect(sizes(candidates("{\"colour\":1,\"sources\":[\(list(3))]}")) == [-1, -1, -1])
        #expect(sizes(candidates("{\"colour\":1,\"sources\":[\(list(257))]}")) == [-1])
        #expect(sizes(candidates(#"{"colour":1,"sources":[]}"#)) == [-1])
    }

    @Test func aPackIsSplitIfItsSourcesAreNotAlike() {
        let alike = "{\"sources\":[\(list(3))]}"
        #expect(sizes(candidates(alike)) == [3])
        #expect(sizes(candidates(alike, deduplicates: true)) == [1, 1, 1])
        #expect(sizes(candidates("{\"id\":\"p\",\"sources\":[\(list(3))]}")) == [3])
        let inBatch = "{\"id\":\"p\",\"sources\":[\(list(3))]}"
        #expect(sizes(candidates(inBatch, intake: "b")) == [1, 1, 1], "its ids may occur twice")
        #expect(sizes(candidates(inBatch, intake: "b", idsAreUnique: true)) == [3])
        #expect(sizes(candidates(#"{"sources":["http://a.example/1","http://b.example/1"]}"#)) == [1, 1])
        #expect(sizes(candidates(#"{"sources":["http://a.example/1"]}"#)) == [1])
        let twice = #"{"sources":[{"id":"a","source":"http://a.example/1"},{"id":"a","source":"http://a.example/2"}]}"#
        #expect(sizes(candidates(twice, intake: "b", idsAreUnique: true)) == [1, 1])
        let keys = #"{"sources":[{"key":"a","source":"http://a.example/1"},"http://a.example/2"]}"#
        let split = candidates(keys)
        #expect(sizes(split) == [1, 1] && split[0].entry != nil && split[1].entry == nil)
    }

    @Test func aHugeSourceOfAPackIsAJob() {
        let data = "data:image/png;base64," + String(repeating: "A", count: 900_000)
        let json = "{\"sources\":[\"http://a.example/1\",\"\(data)\"]}"
        #expect(sizes(candidates(json)) == [1, 1], "it has no host")
        let tooLarge = "{\"sources\":[\"http://a.example/1\",\"\(data)\(data)\"]}"
        #expect(sizes(candidates(tooLarge)) == [-1])
    }

    /// Fault: the id and the batch made the job too large for the worker that claimed it.
    @Test func anAdmittedJobMayBeLargerThanAPushedOne() throws {
        let room = Job.maximumSize - #"{"source":"data:image/png;base64,"}"#.utf8.count
        let pushed = #"{"source":"data:image/png;base64,"# + String(repeating: "A", count: room) + "\"}"
        #expect(pushed.utf8.count == Job.maximumSize)
        guard case .valid(let job, let json) = candidates(pushed, intake: "b")[0].verdict else {
            Issue.record("a job of the maximum size is valid")
            return
        }
        #expect(json.count > Job.maximumSize)
        #expect(try Job(json: json, wasValidated: true).source == job.source)
        #expect(throws: JobError.self) { try Job(json: json) }
    }

    /// Fault: shared labels, which each source has after admission, made the pack unreadable.
    @Test func anAdmittedPackMayBeLargerThanAPushedOne() throws {
        let path = String(repeating: "p", count: 3950)
        let sources = (0..<256).map { "\"http://a.example/\($0)/\(path)\"" }.joined(separator: ",")
        let labels = #"{"note":"\#(String(repeating: "l", count: 1000))"}"#
        let pushed = #"{"labels":\#(labels),"sources":[\#(sources)]}"#
        #expect(pushed.utf8.count < Job.maximumSize)
        guard case .pack(let pack, _, _) = candidates(pushed)[0].verdict else {
            Issue.record("the pack is valid and stays whole")
            return
        }
        let json = pack.json()
        #expect(json.count > Job.maximumSize && pack.size > Job.maximumSize)
        let read = try Pack(json: json)
        #expect(read == pack && read.sources.allSatisfy { $0.labels?["note"] != nil })
    }

    /// The host is read once for sources that begin alike: no other source may pass for one of them.
    @Test(arguments: [
        (["http://a.example/1", "http://a.example/2", "http://a.example/1"], "a.example:80"),
        (["http://a.example/1", "HTTP://A.example/2", "http://a.example:80/3"], "a.example:80"),
        (["http://a.example/1?u=http://b.example/", "http://a.example/x://b.example/"], "a.example:80"),
        (["http://a.example/1", "http://a.example@b.example/2"], nil),
        (["http://a.example/1", "https://a.example/2"], nil),
        (["http://a.example/1", "http://a.example:81/2"], nil),
        (["http://a.example/1", "http://a.example?x", "http://b.example?x"], nil),
        (["file:///a/1", "file:///a/2"], nil),
    ])
    func theHostIsThatOfAllSources(_ sources: [String], _ host: String?) {
        let pack = Pack(
            sharing: Job(id: "p", source: ""),
            sources: sources.enumerated().map { Pack.Source(id: "p.\($0)", source: $1) }
        )
        #expect(pack.host == host)
        #expect(pack.hasOneHost == (host != nil || sources[0].hasPrefix("file:")))
    }
}
