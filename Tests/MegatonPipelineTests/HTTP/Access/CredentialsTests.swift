import Foundation
import FoundationNetworking
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct CredentialsTests {
    private func json(_ text: String) throws -> Credentials { try Credentials(json: Data(text.utf8)) }

    private func fields(_ credentials: Credentials, _ url: String, named name: String? = nil) throws -> [String:
        String]?
    {
        let url = try #require(URL(string: url))
        let parts = try #require(URLParts(url))
        return credentials.credential(for: parts, named: name)?.headerFields
    }

    @Test func areFoundByHostAndByName() throws {
        let credentials = try json(
            """
            {"credentials": [
              {"sources": ["cdn.example/private"], "bearer": "t0"},
              {"sources": ["http://cdn.example"], "bearer": "t1"},
              {"name": "partner", "sources": ["*.example"], "basic": {"user": "user", "password": "pass"}},
              {"sources": ["https://img.example:*"], "headers": {"X-Api-Key": "k"}},
              {"sources": ["s3://bucket"], "s3": {"id": "AKIA", "secret": "s", "token": "t"}}
            ]}
            """
        )
        #expect(try fields(credentials, "https://cdn.example/private/a") == ["Authorization": "Bearer t0"])
        #expect(try fields(credentials, "https://cdn.example/public/a") == nil)
        #expect(try fields(credentials, "https://img.example:8443/a") == ["X-Api-Key": "k"])
        #expect(try fields(credentials, "https://evil.test/private/a") == nil)
        #expect(try fields(credentials, "s3://bucket/a") == [:])
        // Over http only if the rule says so: a rule without a scheme is for https.
        #expect(try fields(credentials, "http://cdn.example/private/a") == ["Authorization": "Bearer t1"])
        #expect(try fields(credentials, "http://img.example/a") == nil)
        let basic = ["Authorization": "Basic dXNlcjpwYXNz"]
        #expect(try fields(credentials, "https://cdn.example/private/a", named: "partner") == basic)
        #expect(try fields(credentials, "https://evil.test/a", named: "partner") == nil)
        #expect(try fields(credentials, "https://cdn.example/a", named: "other") == nil)
    }

    @Test func showNoSecrets() throws {
        let credentials = Credentials([
            Credential(sources: [try SourceRule("a.example")], method: .bearer(Secret("hush"))),
            Credential(
                name: "partner",
                sources: [try SourceRule("*.b.example"), try SourceRule("c.example")],
                method: .basic(user: "me", password: Secret("hush"))
            ),
            Credential(sources: [try SourceRule("d.example")], method: .headerFields(["X-Key": Secret("hush")])),
            Credential(
                sources: [try SourceRule("s3://bucket")],
                method: .s3(keyID: "AKIA", secret: Secret("hush"), sessionToken: Secret("hush"))
            ),
        ])
        var dumped = ""
        dump(credentials, to: &dumped)
        var configuration = DataLoader.Configuration()
        configuration.credentials = credentials
        dump(configuration, to: &dumped)
        for text in [
            dumped, "\(credentials)", String(reflecting: credentials), "\(credentials.credentials.map(\.method))",
        ] {
            #expect(!text.contains("hush"))
        }
        #expect(
            "\(credentials)"
                == "bearer for a.example; partner: basic for *.b.example, c.example; X-Key for d.example; s3 for s3://bucket"
        )
    }

    @Test(arguments: [
        ("hush", "The credentials cannot be read: the file is not JSON."),
        (#"["hush"]"#, "The credentials cannot be read: an object is expected."),
        (#"{"credentials": {"bearer": "hush"}}"#, "a list is expected at credentials"),
        (#"{"credentials": [["hush"]]}"#, "an object is expected at credentials[0]"),
        (#"{"credentials": [{"bearer": "hush"}]}"#, "\"sources\" is missing at credentials[0]"),
        (#"{"credentials": [{"sources": [], "bearer": "hush"}]}"#, "credentials[0].sources is empty"),
        (#"{"credentials": [{"sources": ["a.example"]}]}"#, "credentials[0] has no secret; it needs exactly one of"),
        (
            #"{"credentials": [{"sources": ["a.example"], "bearer": "hush", "headers": {"X": "hush"}}]}"#,
            "credentials[0] has more than one secret; it needs exactly one of"
        ),
        (
            #"{"credentials": [{"sources": ["a.example"], "bearer": ["hush"]}]}"#,
            "a text is expected at credentials[0].bearer"
        ),
        (#"{"credentials": [{"sources": ["*"], "bearer": "hush"}]}"#, "\"*\" is not a rule"),
        (#"{"credentials": [{"name": "a b", "sources": ["a.example"], "bearer": "hush"}]}"#, "credentials[0].name"),
        (
            #"{"credentials": [{"name": "", "sources": ["a.example"], "bearer": "hush"}]}"#,
            "credentials[0].name is not a valid name; allowed are 1 to 128 letters"
        ),
        (
            #"{"credentials": [{"nmae": "partner", "sources": ["a.example"], "bearer": "hush"}]}"#,
            "credentials[0] has an unknown field \"nmae\"; known are basic, bearer, headers, name, s3, sources; "
                + "did you mean \"name\"?"
        ), (#"{"credentials": [{"sources": ["a.example"], "bearrer": "hush"}]}"#, "did you mean \"bearer\"?"),
        (
            #"{"credentials": [{"sources": ["a.example"], "basic": {"user": "u", "pasword": "hush"}}]}"#,
            "credentials[0].basic has an unknown field \"pasword\""
        ),
        (
            #"{"credentials": [{"sources": ["s3://a"], "s3": {"id": "i", "secret": "hush", "tokn": "hush"}}]}"#,
            "credentials[0].s3 has an unknown field \"tokn\""
        ), (#"{"credentials": [], "credential": []}"#, "the file has an unknown field \"credential\""),
    ])
    func aFileWithAFaultSaysWhereAndShowsNoSecret(_ text: String, _ reason: String) {
        #expect { try json(text) } throws: { error in
            let message = (error as? ImagePipeline.Error)?.message ?? ""
            return message.contains(reason) && !message.contains("hush") && !message.hasSuffix("?.")
        }
    }

    // MARK: - On the network

    private func loader(_ credentials: [Credential]) -> DataLoader {
        .local { $0.credentials = Credentials(credentials) }
    }

    @Test func eachHopHasThoseOfItsOwnHost() async throws {
        let seen = Mutex<[String: String?]>([:])
        let note: @Sendable (String, OriginServer.Request) -> Void = { place, request in
            seen.withLock { $0[place] = request.headers["authorization"] }
        }
        try await OriginServer.run(responding: { request in
            note("other", request)
            return .init(body: Data("x".utf8))
        }) { (other) async throws in
            try await OriginServer.run(responding: { request in
                note("third", request)
                return .init(status: 302, headers: [("Location", other.url("/a").absoluteString)])
            }) { (third) async throws in
                try await OriginServer.run(responding: { request in
                    note("first", request)
                    return .init(status: 302, headers: [("Location", third.url("/a").absoluteString)])
                }) { (origin) async throws in
                    let loader = loader([
                        Credential(
                            sources: [try SourceRule("http://127.0.0.1:\(origin.port)")],
                            method: .bearer(Secret("one"))
                        ),
                        Credential(
                            sources: [try SourceRule("http://127.0.0.1:\(other.port)")],
                            method: .bearer(Secret("two"))
                        ),
                    ])
                    let watch = LoadWatch()
                    loader.delegate = watch
                    let probe = await LoadProbe.load(origin.url("/a"), with: loader)
                    #expect(probe.error == nil && probe.timings?.redirects == 2)
                    #expect(seen.withLock { $0 } == ["first": "Bearer one", "third": nil, "other": "Bearer two"])
                    #expect(!String(reflecting: watch.loads.map(\.timings)).contains("Bearer"))
                }
            }
        }
    }

    @Test func aNameIsForItsSourcesOnlyAndIsNotSent() async throws {
        let seen = Mutex<[[String: String]]>([])
        try await OriginServer.run(responding: { request in
            seen.withLock { $0.append(request.headers) }
            return .init(status: request.path == "/401" ? 401 : 200, body: Data("x".utf8))
        }) { (origin) async throws in
            let loader = loader([
                Credential(
                    name: "partner",
                    sources: [try SourceRule("http://127.0.0.1:\(origin.port)/in")],
                    method: .headerFields(["X-Key": Secret("hush")])
                )
            ])
            var request = URLRequest(url: origin.url("/in/a"))
            #expect(await LoadProbe.load(request, with: loader).error == nil)
            request.credentialName = "partner"
            #expect(await LoadProbe.load(request, with: loader).error == nil)
            #expect(seen.withLock { $0.map { $0["x-key"] } } == [nil, "hush"])
            #expect(seen.withLock { $0.allSatisfy { !$0.values.contains("partner") } })
            request.url = origin.url("/out")
            let outside = await LoadProbe.load(request, with: loader)
            #expect(outside.failure?.code == .credentialMissing && outside.failure?.message.contains("partner") == true)
            request = URLRequest(url: origin.url("/in/a"))
            request.credentialName = "nobody"
            let unknown = await LoadProbe.load(request, with: loader)
            #expect(unknown.failure?.code == .credentialMissing && unknown.failure?.message.contains("nobody") == true)
            #expect(unknown.failure?.isRetryable == false)
            #expect(origin.total == 2)
        }
    }

    @Test func theCallersOwnFieldGoesFirst() async throws {
        let seen = Mutex<String?>(nil)
        try await OriginServer.run(responding: { request in
            seen.withLock { $0 = request.headers["authorization"] }
            return .init(status: 401)
        }) { (origin) async throws in
            let loader = loader([
                Credential(
                    sources: [try SourceRule("http://127.0.0.1:\(origin.port)")],
                    method: .bearer(Secret("hush"))
                )
            ])
            var request = URLRequest(url: origin.url("/a"))
            request.setValue("Bearer mine", forHTTPHeaderField: "Authorization")
            let probe = await LoadProbe.load(request, with: loader)
            #expect(seen.withLock { $0 } == "Bearer mine")
            #expect(probe.failure?.code == .accessDenied && probe.failure?.message.contains("mine") == false)
        }
    }

    @Test func fieldsThatWouldBeTwoAreRefused() async throws {
        try await OriginServer.run(answer: { _ in .init() }) { (origin) async throws in
            let loader = loader([
                Credential(
                    sources: [try SourceRule("http://127.0.0.1:\(origin.port)")],
                    method: .headerFields(["X-Key": Secret("hush\r\nX-Other: 1")])
                )
            ])
            let probe = await LoadProbe.load(origin.url("/a"), with: loader)
            #expect(probe.failure?.code == .forbidden && origin.total == 0)
            #expect(probe.failure?.message.contains("hush") == false)
        }
    }
}
