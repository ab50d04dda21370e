import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonRendering

/// The reader has the coefficients of libjpeg, bit for bit, or leaves the file to it.
@Suite(.timeLimit(.minutes(5))) struct LowCoefficientReaderTests {
    @Test func filesOfTheCorpusHaveTheCoefficientsOfLibjpeg() throws {
        var count = 0
        let root = Corpus.path("")
        let names = FileManager.default.enumerator(atPath: root)?.compactMap({ $0 as? String }) ?? []
        for name in LongTests.sample(names.sorted(), every: 3) {
            guard let data = FileManager.default.contents(atPath: Corpus.path(name)),
                let read = LowCoefficientsOfFile(Array(data))
            else { continue }
            #expect(read.found == read.expected && read.hasSameMeans, "\(name)")
            if read.found != nil { count += 1 }
        }
        #expect(count > (LongTests.areOn ? 60 : 20))
    }

    /// Codes of 1 to 16 bits, all samplings, restart markers, full and empty blocks.
    @Test func writtenFilesHaveTheirCoefficients() throws {
        var random = SeededGenerator(seed: 7)
        for number in 0..<300 {
            let image = BaselineJPEG.random(upTo: 70, using: &random)
            let read = try #require(LowCoefficientsOfFile(image.bytes))
            #expect(read.expected != nil && read.found == read.expected && read.hasSameMeans, "file \(number)")
            if image.components == 1 {
                let written = image.blocks.flatMap { [$0[0], $0[1], $0[2], $0[4]] }.map { Int16($0) }
                #expect(read.found == written, "file \(number)")
            }
        }
    }

    /// All orders of scans that libjpeg writes, up to the ones that a quarter or an eighth of the size need.
    @Test func progressiveFilesHaveTheCoefficientsOfLibjpeg() throws {
        var random = SeededGenerator(seed: 11)
        var (compared, read) = (0, 0)
        for number in 0..<600 {
            let image = BaselineJPEG.random(upTo: 70, using: &random)
            let file = try #require(ProgressiveJPEG.random(of: image, using: &random), "file \(number)")
            guard let coefficients = LowCoefficientsOfFile(file) else { continue }
            compared += 1
            #expect(coefficients.expected != nil && coefficients.hasSameMeans, "file \(number)")
            // Bits that are added to bands are left to libjpeg.
            if coefficients.found == nil { continue }
            #expect(coefficients.found == coefficients.expected, "file \(number)")
            read += 1
        }
        #expect(compared > 300 && read > 100, "\(compared) compared, \(read) of them read")
    }

    /// Runs over the ends of blocks, restart markers, missing and additional bytes.
    @Test func damageOfProgressiveFilesIsLeftToLibjpeg() throws {
        var random = SeededGenerator(seed: 12)
        var damaged = 0
        for _ in 0..<200 {
            let image = BaselineJPEG.random(upTo: 40, using: &random)
            var file = try #require(ProgressiveJPEG.random(of: image, using: &random))
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let place = Int.random(in: 20..<file.count, using: &random)
                if random.once(in: 2) {
                    file.remove(at: place)
                } else {
                    file[place] = UInt8.random(in: 0...255, using: &random)
                }
            }
            guard let coefficients = LowCoefficientsOfFile(file) else { continue }
            if coefficients.expected == nil { damaged += 1 }
            #expect(coefficients.found == nil || coefficients.found == coefficients.expected)
        }
        #expect(damaged > 20, "\(damaged) files are damaged")
    }

    /// Found by the fuzzer: libjpeg warns of the bytes behind such a marker.
    @Test func markersThatStandAloneAreLeftToLibjpeg() throws {
        let image = Array(try TestPicture.jpeg(160, 120, progressive: true))
        let end = try #require(Data(image).withUnsafeBytes { JPEGScanPrefix($0, for: .quarter)?.count })
        for marker in [UInt8(0x01), 0xD8, 0xFF] {
            let file = image[..<end] + [0xFF, marker, 1, 2, 3] + image[end...]
            let coefficients = try #require(LowCoefficientsOfFile(Array(file)))
            #expect(coefficients.found == nil || coefficients.found == coefficients.expected, "\(marker)")
        }
    }

    /// Bytes, and why libjpeg shall decide.
    @Test func damageIsLeftToLibjpeg() throws {
        var random = SeededGenerator(seed: 2)
        var image = BaselineJPEG.random(upTo: 1, using: &random)
        (image.width, image.height, image.components, image.across, image.down) = (40, 40, 1, 1, 1)
        image.restartInterval = 5
        image.blocks = (0..<25).map { index in [index] + Array(repeating: index % 2, count: 63) }
        let whole = image.bytes
        #expect(LowCoefficientsOfFile(whole)?.found != nil)
        let scan = try #require(whole.indices.last { whole[$0] == 0xFF && whole[$0 + 1] == 0xDA }) + 10
        let frame = try #require(whole.indices.first { whole[$0] == 0xFF && whole[$0 + 1] == 0xC0 })
        let tables = try #require(whole.indices.first { whole[$0] == 0xFF && whole[$0 + 1] == 0xC4 })
        let restart = try #require(whole.indices.first { $0 > scan && whole[$0] == 0xFF && whole[$0 + 1] == 0xD0 })
        let end = whole.count - 2
        for (damage, change) in [
            ("cut", { $0.removeLast(40) }), ("no end", { $0.removeLast(2) }),
            ("more data", { $0.insert(contentsOf: [1, 2, 3], at: end) }),
            ("a missing marker", { $0.removeSubrange(restart..<(restart + 2)) }),
            ("another marker", { $0[restart + 1] = 0xD3 }),
            ("one marker more", { $0.insert(contentsOf: [0xFF, 0xD4], at: end) }),
            ("missing bytes", { $0.removeSubrange((scan + 10)..<(scan + 50)) }),
            ("a longer image", { $0.replaceSubrange((frame + 5)..<(frame + 7), with: [0xFF, 0xFF]) }),
            ("a fill byte", { $0.insert(0xFF, at: frame) }),
            ("12 bits", { $0[frame + 4] = 12 }),
            ("a table with 300 codes", { $0.insert(contentsOf: Self.table(300), at: tables) }),
            ("a code of ones alone", { $0.replaceSubrange((tables + 5)..<(tables + 7), with: [2, 0]) }),
            ("colors of Adobe", { $0.insert(contentsOf: Self.adobe(transform: 2), at: 2) }),
            ("another JFIF", { $0.insert(contentsOf: Self.jfif(version: 7), at: 2) }),
        ] as [(String, (inout [UInt8]) -> Void)] {
            var file = whole
            change(&file)
            #expect(LowCoefficientsOfFile(file)?.found == nil, "\(damage)")
        }
        for harmless in [Self.adobe(transform: 1), Self.jfif(version: 1)] {
            #expect(LowCoefficientsOfFile(whole.prefix(2) + harmless + whole.dropFirst(2))?.found != nil)
        }
    }

    /// A block has 63 coefficients after its mean.
    @Test func blocksThatDoNotEndAreLeftToLibjpeg() throws {
        var random = SeededGenerator(seed: 3)
        for extra in [1, 16, 64] {
            var image = BaselineJPEG.random(upTo: 1, using: &random)
            (image.width, image.height, image.components, image.restartInterval) = (8, 8, 1, 0)
            (image.across, image.down) = (1, 1)
            for (length, isWhole) in [(64, true), (64 + extra, false)] {
                image.blocks = [[0] + Array(repeating: 0, count: length - 2) + [1]]
                let read = LowCoefficientsOfFile(image.bytes)
                #expect((read?.found != nil) == isWhole, "\(length) coefficients")
            }
        }
    }

    private static func table(_ count: Int) -> [UInt8] {
        let body =
            [0x03] + Array(repeating: 0, count: 14) + [UInt8(150), UInt8(count - 150)]
            + Array(repeating: 0, count: count)
        return [0xFF, 0xC4, UInt8((body.count + 2) >> 8), UInt8((body.count + 2) & 255)] + body
    }

    private static func adobe(transform: UInt8) -> [UInt8] {
        [0xFF, 0xEE, 0, 14] + Array("Adobe".utf8) + [0, 100, 0, 0, 0, 0, transform]
    }

    private static func jfif(version: UInt8) -> [UInt8] {
        [0xFF, 0xE0, 0, 16] + Array("JFIF".utf8) + [0, version, 1, 0, 0, 1, 0, 1, 0, 0]
    }

    /// At an eighth of its size an image has the samples of TurboJPEG, and at a quarter almost: the four lowest
    /// coefficients make them, not the mean of all.
    @Test(arguments: [(8, 0.0), (4, 2.0)])
    func shrunkPhotographsAreThoseOfTurboJPEG(_ shrink: Int, _ tolerance: Double) throws {
        for name in ["photos/p001.jpg", "photos/p013.jpg"] {
            let (sum, count) = try Self.difference(try Corpus.data(name), shrink: shrink)
            #expect(Double(sum) <= tolerance * Double(count), "\(name)")
        }
    }

    /// The four lowest coefficients of the first scans make almost the samples that libjpeg makes of them.
    @Test func shrunkProgressiveImagesAreThoseOfTurboJPEG() throws {
        let data = try TestPicture.jpeg(801, 607, progressive: true)
        for (shrink, needs, tolerance) in [(8, JPEGScanNeeds.eighth, 2.0), (4, .quarter, 2.0)] {
            let part = try #require(data.withUnsafeBytes { JPEGScanPrefix($0, for: needs) })
            let file = data.prefix(part.count) + [0xFF, 0xD9]
            let (sum, count) = try Self.difference(file, shrink: shrink)
            #expect(Double(sum) <= tolerance * Double(count), "1/\(shrink): \(sum) of \(count)")
        }
    }

    /// All samplings, and sizes that are no multiple of a unit.
    @Test func shrunkImagesOfAnySizeAreThoseOfTurboJPEG() throws {
        var random = SeededGenerator(seed: 5)
        for _ in 0..<100 {
            let image = BaselineJPEG.random(upTo: 90, using: &random)
            let (sum, _) = try Self.difference(Data(image.bytes), shrink: 8)
            #expect(sum == 0, "\(image.width) x \(image.height), \(image.across) x \(image.down)")
        }
    }

    /// The sum of the differences between the planes that the reader makes, and those of TurboJPEG, and their samples.
    private static func difference(_ data: Data, shrink: Int) throws -> (sum: Int, count: Int) {
        let codec = TurboJPEGCodec()
        let probe = try #require(JPEGHeader(data)).probe
        let found = try #require(
            probe.isProgressive
                ? codec.decode(scans: data, probe, shrink: shrink) : codec.decode(data, probe, shrink: shrink)
        )
        let expected = try #require(codec.decode(data, probe, shrink: shrink, isWhole: false))
        let sampling = try #require(probe.planes)
        var (sum, count) = (0, 0)
        for (index, (plane, other)) in zip(found.planes, expected.planes).enumerated() {
            #expect(plane.width == other.width && plane.height == other.height)
            // TurboJPEG leaves samples beyond the edge as they were.
            let (across, down) = index == 0 ? (1, 1) : (sampling.horizontal, sampling.vertical)
            let columns = Int((found.width / Double(across)).rounded(.up))
            let rows = Int((found.height / Double(down)).rounded(.up))
            for row in 0..<min(rows, plane.height) {
                for column in 0..<min(columns, plane.width) {
                    let (left, right) = (
                        plane.bytes[row * plane.stride + column], other.bytes[row * other.stride + column]
                    )
                    sum += abs(Int(left) - Int(right))
                    count += 1
                }
            }
        }
        return (sum, count)
    }
}
