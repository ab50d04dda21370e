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
        for name in FileManager.default.enumerator(atPath: root)?.compactMap({ $0 as? String }) ?? [] {
            guard let data = FileManager.default.contents(atPath: Corpus.path(name)),
                let read = LowCoefficientsOfFile(Array(data))
            else { continue }
            #expect(read.found == read.expected, "\(name)")
            count += 1
        }
        #expect(count > 60)
    }

    /// Codes of 1 to 16 bits, all samplings, restart markers, full and empty blocks.
    @Test func writtenFilesHaveTheirCoefficients() throws {
        var random = SeededGenerator(seed: 7)
        for number in 0..<300 {
            let image = BaselineJPEG.random(upTo: 70, using: &random)
            let read = try #require(LowCoefficientsOfFile(image.bytes))
            #expect(read.expected != nil && read.found == read.expected, "file \(number)")
            if image.components == 1 {
                let written = image.blocks.flatMap { [$0[0], $0[1], $0[2], $0[4]] }.map { Int16($0) }
                #expect(read.found == written, "file \(number)")
            }
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
        let restart = try #require(whole.indices.first { $0 > scan && whole[$0] == 0xFF && whole[$0 + 1] == 0xD0 })
        for (damage, change) in [
            ("cut", { $0.removeLast(40) }), ("no end", { $0.removeLast(2) }),
            ("more data", { $0.insert(contentsOf: [1, 2, 3], at: whole.count - 2) }),
            ("a missing marker", { $0.removeSubrange(restart..<(restart + 2)) }),
            ("another marker", { $0[restart + 1] = 0xD3 }),
            ("one marker more", { $0.insert(contentsOf: [0xFF, 0xD4], at: whole.count - 2) }),
            ("missing bytes", { $0.removeSubrange((scan + 10)..<(scan + 50)) }),
        ] as [(String, (inout [UInt8]) -> Void)] {
            var file = whole
            change(&file)
            #expect(LowCoefficientsOfFile(file)?.found == nil, "\(damage)")
        }
    }

    /// At an eighth of its size an image has the samples of TurboJPEG, and at a quarter almost: the four lowest
    /// coefficients make them, not the mean of all.
    @Test(arguments: [(8, 0.0), (4, 2.0)])
    func shrunkImagesAreThoseOfTurboJPEG(_ shrink: Int, _ tolerance: Double) throws {
        let codec = try #require(TurboJPEGCodec())
        for name in ["photos/p001.jpg", "photos/p013.jpg"] {
            let data = try Corpus.data(name)
            let probe = try #require(JPEGHeader(data)).probe
            let fast = try #require(codec.decode(data, probe, shrink: shrink))
            let other = try #require(codec.decode(data, probe, shrink: shrink, isWhole: false))
            for (plane, expected) in zip(fast.planes, other.planes) {
                #expect(plane.width == expected.width && plane.height == expected.height)
                var sum = 0
                // TurboJPEG leaves the last sample of an odd row as it was.
                for row in 0..<(plane.height - 1) {
                    for column in 0..<(plane.width - 1) {
                        sum += abs(
                            Int(plane.bytes[row * plane.stride + column])
                                - Int(expected.bytes[row * expected.stride + column])
                        )
                    }
                }
                #expect(Double(sum) <= tolerance * Double(plane.width * plane.height), "\(name)")
            }
        }
    }
}
