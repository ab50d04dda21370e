import Foundation
import Hummingbird
import MegatonCore
import MegatonPipeline
import Testing

@testable import MegatonServer

/// The parts of a request for an image that are read, and the limits of clients.
@Suite struct ImageRoutePartTests {
    // MARK: - Ranges

    @Test(
        arguments: [
            (nil, ByteRange.whole), ("bytes=0-9", .part(0..<10)), ("bytes=90-", .part(90..<100)),
            ("bytes=-10", .part(90..<100)), ("bytes=-1000", .part(0..<100)), ("BYTES=5-5", .part(5..<6)),
            ("bytes=95-1000", .part(95..<100)), ("bytes=100-", .unsatisfiable), ("bytes=-0", .unsatisfiable),
            ("bytes=9-1", .whole), ("bytes=0-1,5-6", .whole), ("bytes=", .whole), ("bytes=-", .whole),
            ("bytes=a-b", .whole), ("items=0-1", .whole), ("bytes=99999999999999999999-", .unsatisfiable),
            ("bytes=9223372036854775807-9223372036854775807", .unsatisfiable),
            ("bytes=0-9223372036854775807", .part(0..<100)), ("bytes=-9223372036854775808", .part(0..<100)),
        ] as [(String?, ByteRange)]
    )
    func rangesAreRead(_ value: String?, _ range: ByteRange) { #expect(ByteRange(value, of: 100) == range) }

    // MARK: - Formats

    @Test(
        arguments: [
            ([], .jpeg), (["*/*"], .jpeg), (["image/*"], .jpeg), (["image/webp,*/*;q=0.8"], .webp),
            (["image/avif,image/webp,*/*"], .avif), (["image/webp", "image/avif"], .avif),
            (["image/avif;q=0.5, image/webp"], .webp), (["image/avif;q=0,image/webp;q=0.1"], .webp),
            (["IMAGE/AVIF ; q=0.9"], .avif), (["image/avif;q=x"], .jpeg),
            ([String(repeating: "a/b,", count: 1000) + "image/webp"], .jpeg),
        ] as [([String], Rendition.Format)]
    )
    func theBestFormatIsChosen(_ accept: [String], _ format: Rendition.Format) {
        #expect(AcceptedFormats(accept).best(among: [.jpeg, .webp, .avif]) == format)
    }

    @Test func onlyAllowedFormatsAreChosen() {
        let accepted = AcceptedFormats(["image/avif,image/webp"])
        #expect(accepted.best(among: [.jpeg, .webp]) == .webp)
        #expect(accepted.best(among: [.jpeg]) == .jpeg)
    }

    // MARK: - Clients

    @Test(arguments: ["10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/", "10.0.0.0/-1", "a", "", "::/129", "10.0.0.0/8/8"])
    func otherRangesAreRefused(_ text: String) { #expect(AddressRange(text) == nil) }

    @Test(arguments: [
        ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false), ("0.0.0.0/0", "192.0.2.1", true),
        ("192.0.2.128/25", "192.0.2.129", true), ("192.0.2.128/25", "192.0.2.127", false),
        ("192.0.2.1", "192.0.2.1", true), ("192.0.2.1", "192.0.2.2", false), ("2001:db8::/33", "2001:db8::1", true),
        ("2001:db8::/33", "2001:db8:8000::1", false), ("0.0.0.0/0", "::1", false),
        ("127.0.0.0/8", "::ffff:127.0.0.1", true),
    ])
    func rangesContainAddresses(_ range: String, _ address: String, _ isInside: Bool) throws {
        let found = try #require(AddressRange(range)).contains(try #require(HostAddress(address)))
        #expect(found == isInside)
    }

    @Test(arguments: [
        ("192.0.2.1", ["198.51.100.1"], "192.0.2.1"), ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1"], "198.51.100.1"), ("10.0.0.1", ["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", ["198.51.100.1", "10.0.0.2"], "198.51.100.1"), ("10.0.0.1", ["198.51.100.1, x"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.1:4000"], "198.51.100.1"), ("10.0.0.1", ["[2001:db8::1]:80"], "2001:db8::1"),
        ("10.0.0.1", ["2001:db8::1 "], "2001:db8::1"), ("10.0.0.1", ["10.0.0.3,10.0.0.2"], "10.0.0.3"),
    ])
    func theClientIsBehindTrustedProxies(_ peer: String, _ forwarded: [String], _ client: String) throws {
        let addresses = ForwardedAddress(proxies: [try #require(AddressRange("10.0.0.0/8"))])
        #expect(addresses.client(peer: peer, forwarded: forwarded) == client)
    }

    @Test func aClientHasATokenBucket() throws {
        let clock = SteppedClock()
        let rate = ClientRate(rate: 2, time: TimeSource(clock))
        let (client, other) = (AttemptLimit.Client("192.0.2.1"), AttemptLimit.Client("192.0.2.2"))
        for _ in 0..<20 { #expect(rate.take(client) == nil) }
        let wait = try #require(rate.take(client))
        #expect(wait <= .milliseconds(500))
        #expect(rate.take(other) == nil)
        clock.advance(by: .milliseconds(500))
        #expect(rate.take(client) == nil)
        #expect(rate.take(client) != nil)
        clock.advance(by: .seconds(60))
        for _ in 0..<20 { #expect(rate.take(client) == nil) }
        #expect(rate.take(client) != nil)
    }

    @Test func theTableOfClientsIsBounded() {
        let rate = ClientRate(rate: 1, capacity: 100, time: TimeSource(SteppedClock()))
        let busy = AttemptLimit.Client("192.0.2.1")
        for number in 0..<10_000 {
            #expect(rate.take(AttemptLimit.Client("10.0.\(number / 256).\(number % 256)")) == nil)
            // A client that sends requests is not forgotten.
            let isRefused = rate.take(busy) != nil
            #expect(isRefused == (number >= 10))
            guard rate.count > 100 else { continue }
            Issue.record("\(rate.count) clients are known")
            return
        }
    }

    @Test func requestsForOneImageShareAPlace() throws {
        let places = ImagePlaces(1)
        let source = try #require(URL(string: PublishedExample.source))
        let image = ImagePlaces.Key(rendition: Rendition(width: 8), source: source)
        let other = ImagePlaces.Key(rendition: Rendition(width: 16), source: source)
        var held: [ImagePlaces.Place] = []
        for _ in 0..<ImagePlaces.requestsPerImage { held.append(try places.enter(image)) }
        #expect(throws: APIError.self) { try places.enter(image) }
        held.removeLast()
        #expect(throws: APIError.self) { try places.enter(other) }
        #expect(!held.isEmpty)
        held.removeAll()
        let place = try places.enter(other)
        #expect(throws: APIError.self) { try places.enter(image) }
        withExtendedLifetime(place) {}
    }

    // MARK: - Failures

    @Test(
        arguments: [
            (.notFound, 404), (.invalidURL, 400), (.forbidden, 403), (.corruptImage, 422), (.imageTooLarge, 422),
            (.dataTooLarge, 422), (.unsupportedFormat, 422), (.unreachable, 502), (.accessDenied, 502),
            (.timedOut, 504), (.connectTimedOut, 504), (.throttled, 503), (.renderFailed, 500),
        ] as [(ImagePipeline.Error.Code, Int)]
    )
    func failuresHaveTheirStatus(_ code: ImagePipeline.Error.Code, _ status: Int) {
        let failure = ImageFailure(ImagePipeline.Error(code, "http://10.1.2.3/secret failed"))
        #expect(failure.status.code == status)
        #expect(failure.detail.contains(code.rawValue) && !failure.detail.contains("10.1.2.3"))
        #expect((failure.retryAfter != nil) == (status == 503))
        #expect(failure.isOfSource == [404, 422, 502, 504].contains(status))
    }

    @Test func theStatusOfTheOriginCounts() {
        #expect(ImageFailure(ImagePipeline.Error(.httpStatus, "", status: 410)).status.code == 404)
        let failure = ImageFailure(ImagePipeline.Error(.httpStatus, "", status: 503))
        #expect(failure.status.code == 502 && failure.detail.contains("503"))
        #expect(ImageFailure(ImagePipeline.Error(.throttled, "", retryAfter: 2.5)).retryAfter == 3)
        #expect(ImageFailure(ImagePipeline.Error(.headerTooLarge, "", stage: .load)).status.code == 502)
        #expect(ImageFailure(ImagePipeline.Error(.headerTooLarge, "", stage: .decode)).status.code == 422)
    }

    /// The server would be blamed for a limit that the URL has set.
    @Test(arguments: [.encode, nil] as [ImagePipeline.Error.Stage?])
    func aLimitOfTheURLIsNamed(_ stage: ImagePipeline.Error.Stage?) {
        let error = ImagePipeline.Error(.outputTooLarge, "", stage: stage)
        var rendition = Rendition(width: 8)
        rendition.maxBytes = 10
        let failure = ImageFailure(error, of: rendition)
        #expect(failure.status.code == 422)
        #expect(failure.detail.contains("than its URL allows (max_bytes, mb): 10."), "\(failure.detail)")
        #expect(failure.detail.contains("output_too_large"))
        let ofServer = ImageFailure(ImagePipeline.Error(.outputTooLarge, "", stage: .process), of: Rendition(width: 8))
        #expect(ofServer.detail.contains("this server allows"))
    }

    @Test func namesOfFilesAreEncoded() throws {
        let settings = try ImageURLSettings.unsigned()
        func value(_ options: String) throws -> String? { ContentDisposition(try settings.url(options).options).value }
        #expect(try value("w:1") == nil)
        #expect(try value("att:1") == "attachment")
        #expect(try value("fn:a%20b.jpg") == "inline; filename=\"a b.jpg\"; filename*=UTF-8''a%20b.jpg")
        let other = try value("fn:%C3%A4%22.jpg/att:t")
        #expect(other == "attachment; filename=\"__.jpg\"; filename*=UTF-8''%C3%A4%22.jpg")
    }

    @Test func aFallbackIsAnImageWithoutScripts() throws {
        #expect(throws: ImageSettingsError.self) { try FallbackImage(Data("<svg/>".utf8)) }
        #expect(throws: ImageSettingsError.self) { try FallbackImage(Data()) }
        let large = Data([0xFF, 0xD8, 0xFF]) + Data(count: FallbackImage.maximumSize)
        #expect(throws: ImageSettingsError.self) { try FallbackImage(large) }
        _ = try FallbackImage(Data([0xFF, 0xD8, 0xFF]))
    }
}
