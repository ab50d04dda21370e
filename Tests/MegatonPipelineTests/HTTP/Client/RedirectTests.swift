import Foundation
import FoundationNetworking
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite(.timeLimit(.minutes(2))) struct RedirectTests {
    private let body = Data("picture".utf8)

    // MARK: - The rules alone

    private func follow(
        _ location: String?,
        status: Int = 302,
        method: String? = nil,
        headers: [String: String] = [:]
    ) throws -> URLRequest? {
        var request = URLRequest(url: try #require(URL(string: "https://one.example/a/b?c")))
        request.httpMethod = method ?? "GET"
        if method != nil { request.httpBody = Data("x".utf8) }
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        var redirects = Redirects(limit: 5)
        return try redirects.next(after: request, status: status, location: location)
    }

    // RFC 3986 section 5.2, RFC 9110 section 10.2.2
    @Test(arguments: [
        ("/x", "https://one.example/x"), ("x", "https://one.example/a/x"), ("?y", "https://one.example/a/b?y"),
        ("//two.example/x", "https://two.example/x"), ("http://two.example", "http://two.example"),
        ("HTTPS://Two.example/ü", "https://two.example/%C3%BC"), ("/a b", "https://one.example/a%20b"),
        ("/%C3%A9 b", "https://one.example/%C3%A9%20b"),
        ("/ü%20x?q=a b%2F", "https://one.example/%C3%BC%20x?q=a%20b%2F"),
        ("/100%", "https://one.example/100%25"), ("//two.example/a|b", "https://two.example/a%7Cb"),
    ])
    func resolvesLocations(_ location: String, _ url: String) throws {
        #expect(try follow(location)?.url?.absoluteString.lowercased() == url.lowercased())
    }

    @Test(arguments: [
        "file:///etc/passwd", "javascript:alert(1)", "data:,x", "gopher://x/", "s3://bucket/key", "ftp://x/",
    ])
    func leavesTheWebForNothing(_ location: String) throws {
        #expect { try follow(location) } throws: { ($0 as? ImagePipeline.Error)?.code == .invalidURL }
    }

    @Test func followsRedirectsOnly() throws {
        for status in [301, 302, 303, 307, 308] { #expect(try follow("/x", status: status) != nil, "\(status)") }
        for status in [200, 201, 300, 304, 305, 306, 404] { #expect(try follow("/x", status: status) == nil) }
        #expect(try follow(nil) == nil)
        #expect(try follow("") == nil)
    }

    // RFC 9110 sections 15.4.2 to 15.4.9
    @Test(arguments: [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
    func keepsTheMethodWhereItMust(_ status: Int, _ method: String) throws {
        let next = try #require(try follow("/x", status: status, method: "POST"))
        #expect(next.httpMethod == method && (next.httpBody != nil) == (method == "POST"))
    }

    private static let fields = [
        "Authorization": "Bearer secret", "Cookie": "secret", "Proxy-Authorization": "secret", "X-Api-Key": "secret",
        "Host": "one.example", "Range": "bytes=5-", "If-Range": "\"1\"", "If-None-Match": "\"1\"", "Accept": "image/*",
    ]

    @Test(arguments: [
        "http://one.example/x", "https://one.example:8443/x", "https://two.example/x", "https://one.example.two/x",
        "https://sub.one.example/x",
    ])
    func fieldsThatMayIdentifyTheClientAreNotSentToOtherOrigins(_ location: String) throws {
        let next = try #require(try follow(location, headers: Self.fields))
        #expect(
            next.allHTTPHeaderFields == [
                "Range": "bytes=5-", "If-Range": "\"1\"", "If-None-Match": "\"1\"", "Accept": "image/*",
            ]
        )
    }

    @Test(arguments: ["/x", "https://one.example:443/x", "https://ONE.example/x"])
    func withinAnOriginAllFieldsAreKept(_ location: String) throws {
        #expect(try follow(location, headers: Self.fields)?.allHTTPHeaderFields == Self.fields)
    }

    // MARK: - On the network

    @Test(arguments: [301, 302, 303, 307, 308])
    func redirectIsFollowed(_ status: Int) async throws {
        try await OriginServer.run(answer: { path in
            path == "/b"
                ? .init(body: body) : .init(status: status, headers: [("Location", "/b")], body: Data(count: 500))
        }) { (origin) async throws in
            let probe = await LoadProbe.load(origin.url("/a"), with: DataLoader.local())
            #expect(probe.error == nil && probe.data == body, "nothing of the first answer's body")
            #expect(probe.response?.url == origin.url("/b"), "the response tells where it came from")
            #expect(probe.timings?.connects == 1 && probe.timings?.redirects == 1)
        }
    }

    @Test func atMostFiveAreFollowed() async throws {
        try await OriginServer.run(answer: { path in
            let left = Int(path.dropFirst()) ?? 0
            return left == 0 ? .init(body: body) : .init(status: 302, headers: [("Location", "/\(left - 1)")])
        }) { (origin) async throws in
            let loader = DataLoader.local()
            #expect(await LoadProbe.load(origin.url("/5"), with: loader).data == body)
            let before = origin.total
            let probe = await LoadProbe.load(origin.url("/6"), with: loader)
            #expect(probe.failure?.code == .tooManyRedirects && probe.failure?.isRetryable == false)
            #expect(origin.total - before == 6)
        }
    }

    @Test func aRedirectWithoutAPlaceIsAnAnswer() async throws {
        try await OriginServer.run(answer: { _ in .init(status: 302, body: body) }) { (origin) async throws in
            let probe = await LoadProbe.load(origin.url("/a"), with: DataLoader.local())
            #expect(probe.failure?.code == .httpStatus && probe.failure?.status == 302 && probe.chunks == 0)
        }
    }

    @Test func aRedirectWithAnEndlessBodyIsFollowed() async throws {
        let endless = OriginStream(piece: Data(count: 16 * 1024))
        try await OriginServer.run(answer: { path in
            path == "/b" ? .init(body: body) : .init(status: 302, headers: [("Location", "/b")], stream: endless)
        }) { (origin) async throws in
            #expect(await LoadProbe.load(origin.url("/a"), with: DataLoader.local()).data == body)
        }
    }

    @Test func secretsStayWithTheirOrigin() async throws {
        let seen = Mutex<[[String: String]]>([])
        try await OriginServer.run(responding: { request in
            seen.withLock { $0.append(request.headers) }
            return .init(body: Data("x".utf8))
        }) { (other) async throws in
            try await OriginServer.run(answer: { path in
                let place = path == "/away" ? other.url("/a").absoluteString : "/away"
                return .init(status: 302, headers: [("Location", place)])
            }) { (origin) async throws in
                var request = URLRequest(url: origin.url("/a"))
                for (name, value) in Self.fields where name != "Host" {
                    request.setValue(value, forHTTPHeaderField: name)
                }
                #expect(await LoadProbe.load(request, with: DataLoader.local()).error == nil)
                let fields = seen.withLock { $0[0] }
                #expect(!fields.values.contains { $0.contains("secret") }, "\(fields)")
                #expect(fields["range"] == "bytes=5-" && fields["accept"] == "image/*")
                #expect(fields["host"] == "127.0.0.1:\(other.port)")
            }
        }
    }

    /// Each target is refused before a request is sent to it, and the message names the target and the reason.
    @Test(arguments: [
        ("http://127.0.0.2:PORT/x", "127.0.0.2 is loopback"), ("http://10.0.0.1/x", "10.0.0.1 is private"),
        ("http://[::ffff:10.0.0.1]/x", "private"), ("http://169.254.169.254/latest/meta-data", "link-local"),
        ("http://2130706434:PORT/x", "127.0.0.2 is loopback"), ("http://8.8.8.8:22/x", "port 22 is not among those"),
        ("http://user:pw@127.0.0.1:PORT/x", "must not carry a user"), ("http://127.0.0.1@8.8.8.8/x", "must not carry"),
        ("file:///etc/passwd", "file:"), ("http://[fe80::1%25lo]/x", "network interface"), ("http:///x", "no host"),
        ("http://127.0.0.1:PORT\\@8.8.8.8/x", "must not carry"), ("http://127.0.0.1:99999/x", "more than one way"),
    ])
    func redirectsToForbiddenTargetsAreRefused(_ location: String, _ reason: String) async throws {
        let port = Mutex(0)
        try await OriginServer.run(answer: { _ in
            let place = location.replacingOccurrences(of: "PORT", with: "\(port.withLock { $0 })")
            return .init(status: 302, headers: [("Location", place)])
        }) { (origin) async throws in
            port.withLock { $0 = origin.port }
            var configuration = DataLoader.Configuration()
            configuration.addressPolicy.exceptions = [try #require(IPAddress("127.0.0.1"))]
            let probe = await LoadProbe.load(origin.url("/a"), with: DataLoader(configuration))
            let error = try #require(probe.failure)
            #expect([.forbidden, .invalidURL].contains(error.code) && !error.isRetryable, "\(error)")
            #expect(
                error.message.contains(reason) && error.message.contains(origin.url("/a").absoluteString),
                "\(error)"
            )
            #expect(!error.message.contains("pw"))
            #expect(origin.total == 1)
        }
    }

    @Test func hopsToSourcesThatAreNotAllowedAreRefused() async throws {
        try await OriginServer.run(answer: { _ in .init(body: body) }) { (other) async throws in
            try await OriginServer.run(answer: { path in
                switch path {
                case "/in/away": .init(status: 302, headers: [("Location", other.url("/in/x").absoluteString)])
                case "/in/up": .init(status: 302, headers: [("Location", "/in/../out")])
                case "/in/down": .init(status: 302, headers: [("Location", "/in/x")])
                default: .init(body: body)
                }
            }) { (origin) async throws in
                let rule = try SourceRule("http://127.0.0.1:\(origin.port)/in")
                let loader = DataLoader.local { $0.urlPolicy.sources = [rule] }
                #expect(await LoadProbe.load(origin.url("/in/down"), with: loader).data == body)
                for path in ["/in/away", "/in/up", "/out"] {
                    let probe = await LoadProbe.load(origin.url(path), with: loader)
                    #expect(probe.failure?.code == .forbidden, "\(path)")
                    #expect(probe.failure?.message.contains("not among the sources") == true)
                }
                #expect(other.total == 0 && origin.count("/out") == 0)
            }
        }
    }
}
