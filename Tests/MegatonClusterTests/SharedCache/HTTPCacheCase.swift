import Foundation
import FoundationNetworking
import Logging
import MegatonPipeline
import MegatonTestSupport
import Synchronization
import Testing

@testable import MegatonCluster

/// A few requests for one URL, the origin's response to each, and the expected behavior of the cache.
struct HTTPCacheCase: Sendable {
    /// Expected source of a response's body.
    enum Source: Sendable {
        /// The origin, asked without a condition of the cache.
        case origin
        /// The cache, without the origin: the body of this request, counted from 0.
        case cache(of: Int)
        /// Bytes of the stored body, without the origin.
        case part(of: Int, Range<Int>)
        /// The cache, after a 304 from the origin.
        case confirmed(of: Int)
        /// None: the request fails.
        case failure(ImagePipeline.Error.Code)
    }

    struct Exchange: Sendable {
        var method = "GET"
        /// Appended to the case's own path.
        var path = ""
        var request: [(String, String)] = []
        var status = 200
        var response: [(String, String)] = []
        /// Body in bytes; nil for an image that is unique to the exchange.
        var body: Data?
        var source: Source
        /// Status that the caller must get.
        var expectedStatus: Int?
        /// Header fields that the caller's response must have.
        var expected: [String: String] = [:]
        /// Header fields that the caller's response must not have.
        var absent: [String] = []
        /// Minimum `Age` in seconds.
        var age: Int?
        /// Number of requests for this path at the origin, once background work has ended.
        var finalRequests: Int?
    }

    let name: String
    let exchanges: [Exchange]

    init(_ name: String, _ exchanges: [Exchange]) {
        self.name = name
        self.exchanges = exchanges
    }

    static func image(_ number: Int) -> Data {
        TestImage.quarters(width: 8, height: 8, seed: UInt8((number * 29 + 7) % 256))
    }

    /// An HTTP date, in seconds from now.
    static func date(_ seconds: Double) -> String {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        return formatter.string(from: Date(timeIntervalSinceNow: seconds))
    }
}

/// The origin of cases: it sends the response of the current exchange, or 304 if a condition matches.
final class HTTPCacheOrigin: Sendable {
    private struct State {
        var exchange = HTTPCacheCase.Exchange(source: .origin)
        var number = 0
        var requests: [OriginServer.Request] = []
    }

    private let state = Mutex(State())

    func begin(_ exchange: HTTPCacheCase.Exchange, _ number: Int) {
        state.withLock {
            $0.exchange = exchange
            $0.number = number
            $0.requests = []
        }
    }

    /// Requests since `begin`.
    var requests: [OriginServer.Request] { state.withLock { $0.requests } }

    func answer(_ request: OriginServer.Request) -> OriginServer.Answer {
        state.withLock { state in
            state.requests.append(request)
            let exchange = state.exchange
            func field(_ name: String) -> String? { exchange.response.first { $0.0.lowercased() == name }?.1 }
            let isKnown =
                request.headers["if-none-match"].map { $0 == field("etag") }
                ?? request.headers["if-modified-since"].map { $0 == field("last-modified") }
            if request.method == "GET", exchange.status == 200, isKnown == true {
                return OriginServer.Answer(status: 304, headers: exchange.response)
            }
            let body = exchange.body ?? HTTPCacheCase.image(state.number)
            return OriginServer.Answer(status: exchange.status, headers: exchange.response, body: body)
        }
    }
}

extension HTTPCacheCase {
    /// Runs the case.
    ///
    /// - Parameters:
    ///   - pipelines: used in turn.
    ///   - path: the case's own path.
    func play(
        _ pipelines: [ImagePipeline],
        _ server: OriginServer,
        _ origin: HTTPCacheOrigin,
        path: String
    ) async {
        for (number, exchange) in exchanges.enumerated() {
            origin.begin(exchange, number)
            var request = URLRequest(url: server.url(path + exchange.path))
            request.httpMethod = exchange.method
            if !["GET", "HEAD"].contains(exchange.method) { request.httpBody = Data("abc".utf8) }
            for (name, value) in exchange.request { request.addValue(value, forHTTPHeaderField: name) }
            let place = "\(name), exchange \(number)"
            do {
                let pipeline = pipelines[number % pipelines.count]
                let (data, response) = try await pipeline.data(for: ImageRequest(urlRequest: request))
                check(exchange, number, data, response as? HTTPURLResponse, origin.requests, place)
            } catch {
                check(exchange, error, place)
            }
            if let count = exchange.finalRequests {
                await server.waitForRequests(path + exchange.path, count: count)
            }
        }
    }

    private func check(
        _ exchange: Exchange,
        _ number: Int,
        _ data: Data,
        _ response: HTTPURLResponse?,
        _ requests: [OriginServer.Request],
        _ place: String
    ) {
        let own = Set(exchange.request.map { $0.0.lowercased() })
        let isConditional = requests.contains { request in
            ["if-none-match", "if-modified-since"].contains { request.headers[$0] != nil && !own.contains($0) }
        }
        switch exchange.source {
        case .origin:
            #expect(requests.count == 1 && !isConditional, "\(place): the origin is asked for all")
            if exchange.method == "GET" {
                #expect(
                    data == exchange.body ?? Self.image(number) || exchange.expectedStatus == 304,
                    "\(place): its body"
                )
            }
        case .cache(let index):
            // A request in the background may have arrived already.
            if exchange.finalRequests == nil { #expect(requests.isEmpty, "\(place): the origin is not asked") }
            #expect(data == Self.image(index), "\(place): the stored body")
        case .part(let index, let range):
            #expect(requests.isEmpty, "\(place): the origin is not asked")
            #expect(data == Self.image(index)[range], "\(place): a part of the stored body")
        case .confirmed(let index):
            #expect(requests.count == 1 && isConditional, "\(place): the origin is asked with a condition")
            #expect(data == Self.image(index), "\(place): the stored body")
        case .failure(let code): Issue.record("\(place): it must fail with \(code)")
        }
        #expect(response?.statusCode == exchange.expectedStatus ?? 200, "\(place): status")
        for (name, value) in exchange.expected {
            #expect(response?.value(forHTTPHeaderField: name) == value, "\(place): \(name)")
        }
        for name in exchange.absent {
            #expect(response?.value(forHTTPHeaderField: name) == nil, "\(place): no \(name)")
        }
        if let least = exchange.age {
            let age = response?.value(forHTTPHeaderField: "Age").flatMap { Int($0) }
            #expect(
                (age ?? -1) >= least && (age ?? 0) < least + 60,
                "\(place): Age is \(age.map(String.init) ?? "missing")"
            )
        }
    }

    private func check(_ exchange: Exchange, _ error: any Error, _ place: String) {
        guard case .failure(let code) = exchange.source else {
            Issue.record("\(place): \(error)")
            return
        }
        #expect((error as? ImagePipeline.Error)?.code == code, "\(place)")
    }
}
