import Foundation
import FoundationNetworking
import Testing

@testable import MegatonPipeline

@Suite struct RenditionTests {
    private func decode(_ json: String) throws -> Rendition {
        try JSONDecoder().decode(Rendition.self, from: Data(json.utf8))
    }

    @Test func hasDefaults() throws {
        #expect(try decode(#"{"width":256,"height":256}"#) == Rendition(name: "256x256", width: 256, height: 256))
    }

    @Test func survivesTheWire() throws {
        let rendition = Rendition(
            name: "small",
            width: 10,
            height: 20,
            fit: .cover,
            format: .webp,
            quality: 33,
            background: .black
        )
        #expect(try JSONDecoder().decode(Rendition.self, from: JSONEncoder().encode(rendition)) == rendition)
    }

    @Test(arguments: [
        (#"{"width":256,"heigth":1}"#, "heigth"), (#"{}"#, "width"), (#"{"width":0}"#, "8192"),
        (#"{"width":9000}"#, "8192"), (#"{"width":5,"quality":101}"#, "quality"),
        (#"{"width":5,"fit":"cover"}"#, "cover"),
        (#"{"width":5,"name":"../x"}"#, "name"), (#"{"width":5,"background":"red"}"#, "#ffffff"),
    ])
    func refusesWithTheReason(_ json: String, _ word: String) {
        #expect { try decode(json) } throws: { "\($0)".contains(word) }
    }

    @Test func identityHoldsEverythingThatChangesBytesAndNotTheName() {
        let base = Rendition(name: "a", width: 1, height: 2)
        #expect(Rendition(name: "b", width: 1, height: 2).identity == base.identity)
        let others = [
            Rendition(width: 2, height: 1), Rendition(width: 1, height: 2, fit: .cover),
            Rendition(width: 1, height: 2, format: .png), Rendition(width: 1, height: 2, quality: 81),
            Rendition(width: 1, height: 2, background: .black), Rendition(width: 1), Rendition(height: 2),
        ]
        #expect(Set(others.map(\.identity) + [base.identity]).count == others.count + 1)
    }

    @Test func keysDoNotCollideWhereJoinedStringsWould() {
        #expect(CacheKey(.original, ["ab", "c"]) != CacheKey(.original, ["a", "bc"]))
        #expect(CacheKey(.original, ["a"]) != CacheKey(.rendition, ["a"]))
        #expect(CacheKey(.original, ["a", ""]) != CacheKey(.original, ["a"]))
        #expect(CacheKey(.original, ["a"]).digest.count == 64)
    }

    @Test func whoMaySeeAnImageIsPartOfItsKey() {
        let url = URL(string: "https://example.org/a.jpg")!
        let plain = ImageRequest(url: url)
        #expect(CacheKey.original(of: plain) == .original(of: ImageRequest(url: url)))
        var scoped = plain
        scoped.credentialScope = "ann"
        #expect(CacheKey.original(of: plain) != .original(of: scoped))
        var particular = plain
        particular.headers = ["Accept": "image/png"]
        #expect(CacheKey.original(of: plain) != .original(of: particular))
        var posted = URLRequest(url: url)
        posted.httpMethod = "POST"
        #expect(CacheKey.original(of: plain) != .original(of: ImageRequest(urlRequest: posted)))
        var (signed, again): (ImageRequest, ImageRequest) = (
            "https://example.org/a.jpg?sig=1", "https://example.org/a.jpg?sig=2"
        )
        #expect(CacheKey.original(of: signed) != .original(of: again))
        (signed.imageID, again.imageID) = ("a", "a")
        #expect(CacheKey.original(of: signed) == .original(of: again))
    }
}
