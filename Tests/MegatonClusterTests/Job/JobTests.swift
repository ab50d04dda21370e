import Foundation
import MegatonPipeline
import MegatonTestSupport
import Testing

@testable import MegatonCluster

@Suite struct JobTests {
    @Test func readsTheWireForm() throws {
        let json = """
            {"id":"a.1","kind":"process","source":"https://h/a.jpg","renditions":[{"name":"small","width":256,
             "height":256,"fit":"cover","format":"webp","quality":75}],"output":"file:///srv/{path}/{stem}-{name}.{ext}",
             "batch":"spring","priority":"high","attempts":3,"credential":"partner"}
            """
        let job = try Job(json: Data(json.utf8))
        let rendition = Rendition(name: "small", width: 256, height: 256, fit: .cover, format: .webp, quality: 75)
        #expect(
            job
                == Job(
                    id: "a.1",
                    source: "https://h/a.jpg",
                    renditions: [rendition],
                    output: "file:///srv/{path}/{stem}-{name}.{ext}",
                    batch: "spring",
                    priority: .high,
                    attempts: 3,
                    credential: "partner"
                )
        )
        #expect(try Job(json: job.json()) == job)
        #expect(try Job(json: job.json(), wasValidated: true) == job)
    }

    @Test(arguments: [
        ("", "JSON"), ("[]", "the job is a list; allowed is an object"), ("{}", "source"), (#"{"source":1}"#, "source"),
        (#"{"source":""}"#, "empty"),
        // Fault: each claim and renewal read the host in the record of the job, of up to a megabyte.
        (#"{"source":"https://\#(String(repeating: "a", count: 300)).h/a"}"#, "a host of more than 253 bytes"),
        (#"{"source":"x","sauce":1}"#, "\"sauce\""), (#"{"source":"x","id":"a b"}"#, "id"),
        (#"{"source":"x","credential":""}"#, "credential"), (#"{"source":"x","credential":"a\nb"}"#, "credential"),
        (#"{"source":"x","attempts":0}"#, "attempts"), (#"{"source":"x","renditions":[]}"#, "empty"),
        (#"{"source":"x","renditions":[{"width":1,"colour":2}]}"#, "colour"),
        (#"{"source":"x","renditions":[{"width":1,"name":"a"},{"width":2,"name":"a"}]}"#, "renditions[0] shares"),
        (#"{"source":"x","preset":"p","renditions":[{"width":1}]}"#, "either"),
        (#"{"source":"x","priority":"urgent"}"#, "urgent"),
        (#"{"source":"x","output":"/srv"}"#, "file:"), (#"{"source":"x","output":"file:///a/{nome}"}"#, "{nome}"),
        (#"{"source":"x","output":"file:///a/../b"}"#, ".."),
    ])
    func refusesWithTheReason(_ json: String, _ word: String) {
        #expect { try Job(json: Data(json.utf8)) } throws: { ($0 as? JobError)?.message.contains(word) == true }
    }

    @Test func refusesAFloodOfBytes() {
        let json = Data(#"{"source":"\#(String(repeating: "a", count: Job.maximumSize))"}"#.utf8)
        #expect { try Job(json: json) } throws: { "\($0)".contains("bytes") }
    }

    @Test func outputsFollowTheirTemplate() throws {
        let rendition = Rendition(name: "small", width: 256, height: 256, format: .webp)
        func path(_ template: String, _ source: String) throws -> String {
            try OutputTemplate(template).path(
                source: source,
                rendition: rendition,
                size: PixelSize(width: 256, height: 100)
            )
        }
        #expect(
            try path("file:///t/{host}/{path}/{stem}-{name}.{ext}", "https://h.org/a/b%20c/d.e.jpg?x=1")
                == "/t/h.org/a/b c/d.e-small.webp"
        )
        #expect(try path("file:///t/%7Bx%7D%20y/{width}x{height}", "https://h/a") == "/t/{x} y/256x100")
        #expect(try path("file:///t/{stem}", "https://h/") == "/t/index")
        #expect(try path("file:///t/{host}", "https://bücher.example/a") == "/t/xn--bcher-kva.example")
        #expect(try path("file:///t/{host}", "https://xn--bcher-kva.example/a") == "/t/xn--bcher-kva.example")
        #expect(try path("file:///t/{path}/{stem}", "https://h/..%2F..%2Fetc/pass%00wd").hasPrefix("/t/"))
        // Names that are not UTF-8 stay distinct.
        #expect(try path("file:///t/{path}/{stem}", "https://h/x/caf%E9.jpg") == "/t/x/caf%E9")
        #expect(try path("file:///t/{path}/{stem}", "https://h/x/th%E9.jpg") == "/t/x/th%E9")
        let evil = try path("file:///t/{path}/{stem}", "https://h/a/../%2e%2e/b")
        #expect(!evil.split(separator: "/").contains(".."))
        #expect(try path("file:///t/{stem}/{name}", "https://h/...") == "/t/_/small")
        // Fault: Swift takes a slash before a combining mark for another character than a slash.
        #expect(try path("file:///t/.{path}./\u{301}x", "https://h/a") == "/t/_/\u{301}x")
        #expect(try path("file:///t/.{path}./{name}", "https://h/a") == "/t/_/small")
        #expect(try path("file:///t/{hash}", "https://h/a") != path("file:///t/{hash}", "https://h/b"))
        #expect(try path("file:///t/{stem}", "https://h/\(String(repeating: "x", count: 400))").utf8.count < 200)
    }

    @Test func retriesDoubleAndHonourRetryAfter() {
        let policy = RetryPolicy()
        let error = ImagePipeline.Error(.unreachable, "x")
        #expect(
            (1...4).map { policy.delay(after: $0, of: 5, error: error, random: 0) }
                == [2, 4, 8, 16].map { .seconds($0) }
        )
        #expect(policy.delay(after: 5, of: 5, error: error) == nil)
        #expect(policy.delay(after: 90, of: 100, error: error, random: 0) == .seconds(600))
        #expect(policy.delay(after: 1, of: 5, error: error, random: 1) == .seconds(3))
        var asked = error
        asked.retryAfter = 30
        #expect(policy.delay(after: 1, of: 5, error: asked, random: 0) == .seconds(30))
        let askedLong = ImagePipeline.Error(.httpStatus, "x", isRetryable: true, retryAfter: 600)
        #expect(policy.delay(after: 1, of: 5, error: askedLong, random: 1) == .seconds(630))
        #expect(policy.delay(after: 1, of: 5, error: .init(.corruptImage, "x")) == nil)
        #expect(policy.delay(after: 1, of: 5, error: .init(.httpStatus, "x", isRetryable: true)) != nil)
    }

    @Test func outputsAreWrittenWholeAndWithinTheirRoots() async throws {
        let directory = try TestDirectory()
        let threads = ThreadPool(name: "test", count: 1)
        defer { threads.stop() }
        let output = FileOutput(access: FileAccess(roots: [directory.path]), threads: threads)
        let path = directory.path + "/a/b.jpg"
        for text in ["first", "second, and longer", "second, and longer", ""] {
            try await output.write([(path, Data(text.utf8))])
            #expect(try String(contentsOfFile: path, encoding: .utf8) == text)
        }
        #expect(directory.files == ["a/b.jpg"], "no temporary file is left")
        await #expect { try await output.write([("/etc/megaton-test", Data())]) } throws: {
            ($0 as? ImagePipeline.Error)?.code == .forbidden
        }
        let blocker = try directory.write(Data(), to: "file")
        await #expect { try await output.write([(blocker + "/x.jpg", Data())]) } throws: {
            ($0 as? ImagePipeline.Error)?.code == .outputFailed
        }
    }

    @Test func onlyWebSourcesHaveAHost() {
        func host(_ source: String) -> String? { Job(id: "a", source: source).host }
        #expect(host("HTTPS://A.example/b.jpg") == "a.example:443")
        #expect(host("http://a.example:8080/") == "a.example:8080")
        for source in ["data:image/png;base64,AAAA", "https", "httpsx://a.example/", "file:///a", "s3://bucket/a", ""] {
            #expect(host(source) == nil, "\(source)")
        }
    }
}
