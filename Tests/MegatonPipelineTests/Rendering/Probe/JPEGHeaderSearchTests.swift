import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonRendering

/// The end of a JPEG's header while the file arrives.
@Suite(.timeLimit(.minutes(2))) struct JPEGHeaderSearchTests {
    private func find(_ search: inout JPEGHeaderSearch, _ data: Data) -> JPEGHeaderSearch.Result {
        data.withUnsafeBytes { search.find(in: $0) }
    }

    private func result(_ data: Data) -> JPEGHeaderSearch.Result {
        var search = JPEGHeaderSearch()
        return find(&search, data)
    }

    private let start = Data([0xFF, 0xD8])
    private let empty = Data([0xFF, 0xE1, 0, 2])
    /// The header of a scan without its content.
    private let scan = Data([0xFF, 0xDA, 0, 6, 0, 0, 0, 0])

    @Test(arguments: [false, true]) func theEndIsThatOfTheFirstScanHeader(isProgressive: Bool) throws {
        let data = try TestPicture.jpeg(200, 150, progressive: isProgressive)
        let end = data.withUnsafeBytes { bytes in
            JPEGMarkers(bytes).first { $0.marker == JPEGMarkers.startOfScan }?.end
        }
        let count = try #require(end)
        #expect(result(data) == .end(count) && result(data.prefix(count)) == .end(count))
        var search = JPEGHeaderSearch()
        for length in 0..<count { #expect(find(&search, data.prefix(length)) == .more) }
        #expect(find(&search, data) == .end(count))
    }

    /// Otherwise the time would grow with the square of the size of a header that arrives in small pieces.
    @Test func segmentsAreReadOnce() {
        var data = start
        var search = JPEGHeaderSearch()
        for _ in 0..<1000 {
            data += empty
            #expect(find(&search, data) == .more)
            for index in 3..<data.count { data[index] = 0 }
        }
        data += scan
        #expect(find(&search, data) == .end(data.count))
    }

    @Test func segmentsAndBytesAreBounded() {
        let segments = { (count: Int) in start + (0..<count).reduce(into: Data()) { data, _ in data += empty } }
        #expect(result(segments(HeaderBounds.parts)) == .more)
        #expect(result(segments(HeaderBounds.parts - 1) + scan) != .other)
        #expect(result(segments(HeaderBounds.parts + 1)) == .other)
        let large = Data([0xFF, 0xE1, 0xFF, 0xFF]) + Data(count: 0xFFFD)
        let many = (0..<65).reduce(into: start) { data, _ in data += large }
        #expect(result(many.prefix(JPEGHeaderSearch.longest / 2)) == .more && result(many) == .other)
        let fill = start + Data(repeating: 0xFF, count: JPEGHeaderSearch.longest + 8)
        #expect(result(fill.prefix(1000)) == .more && result(fill) == .other)
    }

    @Test func otherBytesHaveNoHeader() {
        for data in [
            Data("<html><body>".utf8), Data([0xFF, 0xD8, 0]), start + empty + Data([1, 2, 3]) + empty + scan,
        ] {
            #expect(result(data) == .other)
        }
        #expect(result(Data()) == .more && result(start) == .more && result(start + [0xFF, 0xD9, 0, 0]) == .more)
    }
}
