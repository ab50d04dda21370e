import Foundation
import Testing

@testable import MegatonHTTP
@testable import MegatonPipeline

@Suite struct VaryTests {
    private func fields(_ vary: String, _ request: [String: String]) -> [String: String]? {
        VaryKey(response: ["vary": vary], request: request)?.fields
    }

    @Test(
        arguments: [
            (nil, .none), ("", .none), (" , ", .none), ("Accept", .fields(["accept"])),
            ("Accept, ACCEPT,user-agent", .fields(["accept", "user-agent"])), ("*", .all), ("accept, *", .all),
            ("a b", .all), ("accept*", .fields(["accept*"])),
            ((0...32).map { "f\($0)" }.joined(separator: ","), .all),
        ] as [(String?, VaryKey.Names)]
    )
    func readsVary(_ value: String?, _ names: VaryKey.Names) {
        #expect(VaryKey.names(value.map { ["vary": $0] } ?? [:]) == names)
    }

    @Test func anAnswerThatDoesNotVaryMatchesAll() {
        #expect(VaryKey(response: [:], request: ["accept": "a"]) == nil)
        #expect(VaryKey(response: ["vary": "*"], request: [:]) == nil)
        #expect(VaryKey.matches(nil, request: ["accept": "a"]))
    }

    /// RFC 9111 section 4.1.
    @Test func matchesByTheNamedFieldsAlone() {
        let stored = fields("Accept, X-Size", ["Accept": "image/webp", "Cookie": "c"])
        #expect(VaryKey.matches(stored, request: ["accept": "image/webp", "Cookie": "d"]))
        #expect(!VaryKey.matches(stored, request: ["accept": "image/png"]))
        #expect(!VaryKey.matches(stored, request: [:]), "sent then, not now")
        #expect(!VaryKey.matches(stored, request: ["accept": "image/webp", "x-size": "1"]), "sent now, not then")
        #expect(!VaryKey.matches(stored, request: ["accept": "image/webp", "x-size": ""]), "empty is not absent")
        #expect(VaryKey.matches(fields("accept", [:]), request: ["x": "1"]))
    }

    @Test func whitespaceAndCaseOfNamesMeanNothing() {
        let stored = fields("Accept", ["ACCEPT": " image/webp ,image/png;q=\"a, b\" "])
        #expect(VaryKey.matches(stored, request: ["accept": "image/webp,\timage/png;q=\"a, b\""]))
        #expect(
            !VaryKey.matches(stored, request: ["accept": "image/webp,image/png;q=\"a,b\""]),
            "a string is what it is"
        )
        #expect(!VaryKey.matches(stored, request: ["accept": "image/png;q=\"a, b\",image/webp"]), "order may mean much")
        let twice = ["Accept": "a", "accept": "b"]
        #expect(VaryKey.matches(fields("accept", twice), request: ["accept": "a, b"]))
    }

    @Test func noSecretGetsIntoACache() throws {
        let key = try #require(
            VaryKey(
                response: ["vary": "authorization, cookie"],
                request: ["Authorization": "Bearer s3cret", "Cookie": "k"]
            )
        )
        #expect(!key.fields.values.contains { $0.contains("s3cret") })
        #expect(key.fields.values.allSatisfy { $0.utf8.count == 64 })
    }

    @Test func eachVariantHasItsKey() throws {
        let primary = CacheKey(.original, ["a"])
        func key(_ vary: String, _ request: [String: String]) throws -> CacheKey {
            try #require(VaryKey(response: ["vary": vary], request: request)).key(beneath: primary)
        }
        let webp = try key("accept, x", ["Accept": "image/webp"])
        #expect(try webp == key("X ,Accept", ["accept": "image/webp ", "y": "z"]), "the order of names means nothing")
        let png = try key("accept, x", ["Accept": "image/png"])
        let none = try key("accept, x", [:])
        let other = VaryKey(["accept", "x"], request: ["Accept": "image/webp"]).key(
            beneath: CacheKey(.original, ["b"])
        )
        #expect(Set([primary, webp, png, none, other]).count == 5)
        #expect(webp.kind == .original)
        let choice = VaryKey(["accept", "x"], request: ["Accept": "image/webp"])
        let generations = ["a", "b", nil].map { choice.key(beneath: primary, generation: $0) }
        #expect(Set(generations).count == 3 && generations[2] == webp)
    }

    /// The caller's header fields are part of the key, except those that only control caching.
    @Test func fieldsThatMayChangeTheResponseArePartOfTheKey() {
        let plain = VaryKey.lines(["Accept": "a", "X-Key": "1"])
        #expect(plain == ["accept:a", "x-key:1"])
        #expect(VaryKey.lines(["x-key": "1", "Cache-Control": "no-cache", "accept": "a", "Pragma": "x"]) == plain)
        #expect(VaryKey.lines(["X-Key": "2", "Accept": "a"]) != plain)
        // A range is another resource than the whole.
        #expect(VaryKey.lines(["If-None-Match": "\"1\"", "Range": "bytes=0-"]).count == 2)
    }

    /// Requests share an original, unless a header field may identify the client.
    @Test(arguments: [
        ("Accept-Language", false), ("User-Agent", false), ("X-Request-Id", false), ("Referer", false), ("Foo", false),
        ("Authorization", true), ("Cookie", true), ("X-API-Key", true), ("X-Forwarded-For", true), ("X-Real-IP", true),
        ("X-User", true), ("X-Csrf-Token", true), ("Megaton-Credential", true), ("X-Amz-Security-Token", true),
    ])
    func fieldsThatMayIdentifyTheClientKeepEntriesApart(_ name: String, _ isApart: Bool) throws {
        var request = ImageRequest(url: TestPipeline.url)
        #expect(CacheKey.sharedOriginal(of: request) == nil)
        request.headers = [name: "1", "Accept": "a"]
        var other = request
        other.headers[name] = "2"
        let shared = try #require(CacheKey.sharedOriginal(of: request))
        #expect((shared == CacheKey.sharedOriginal(of: other)) != isApart)
        #expect((shared == .original(of: ImageRequest(url: TestPipeline.url))) != isApart)
    }

    // MARK: - Entries

    @Test func anEntryKnowsWhatItWasChosenBy() throws {
        let headers = ["vary": "Accept", "cache-control": "max-age=60", "etag": "\"1\""]
        let webp = ["Accept": "image/webp"]
        let stored = try #require(CachedData.Metadata(headers: headers, request: webp))
        #expect(stored.matches(request: webp) && !stored.matches(request: [:]))
        let read = try JSONDecoder().decode(CachedData.Metadata.self, from: JSONEncoder().encode(stored))
        #expect(read == stored)
        #expect(CachedData.Metadata(headers: headers.merging(["vary": "*"]) { $1 }, request: webp) == nil)
    }

    /// RFC 9111 section 4.3.4: a 304 may name other fields, or all (`*`).
    @Test func aRevalidatedEntryVariesAsTheOriginSaysNow() throws {
        let headers = ["vary": "Accept", "cache-control": "max-age=60", "etag": "\"1\""]
        let request = ["Accept": "image/webp", "DPR": "2"]
        let stored = try #require(CachedData.Metadata(headers: headers, request: request))
        #expect(stored.refreshed(by: [:], request: request)?.vary == stored.vary)
        let changed = try #require(stored.refreshed(by: ["vary": "DPR"], request: request))
        #expect(changed.matches(request: ["dpr": "2"]) && !changed.matches(request: ["dpr": "1"]))
        #expect(stored.refreshed(by: ["vary": "*"], request: request) == nil)
    }

    @Test func entriesOfBeforeVaryByNothing() throws {
        let json = Data(#"{"etag":"\"1\"","lifetime":60,"stored":1}"#.utf8)
        let metadata = try JSONDecoder().decode(CachedData.Metadata.self, from: json)
        #expect(metadata.vary == nil && metadata.status == nil && metadata.age == nil && metadata.headers == nil)
        #expect(metadata.matches(request: ["accept": "a"]))
        #expect(metadata.refreshed(by: ["vary": "accept"], request: ["accept": "a"])?.vary != nil)
    }
}
