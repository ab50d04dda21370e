import Foundation
import MegatonTestSupport
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// HEIF and AVIF files are measured before libheif reads them: their items, references and copies.
@Suite(.timeLimit(.minutes(2))) struct HEIFDemandTests {
    private static let small = try? TestHEIF.Picture(64, 64)

    private func small() throws -> TestHEIF.Picture { try #require(Self.small) }

    /// A file whose item 1 is derived from others, and whose item 100 is a coded image of 64x64.
    private func derived(_ type: String, _ data: Data, from inputs: [Int], _ size: PixelSize) throws -> HEIFWriter {
        var file = TestHEIF.plain(try small())
        file.items[0].id = 100
        let ispe = file.add(property: HEIFWriter.ispe(size.width, size.height))
        file.add(1, type, properties: [ispe], blob: file.add(blob: data))
        file.references.append(.init("dimg", 1, inputs))
        return file
    }

    // MARK: - Valid files

    @Test func derivedImagesAreRendered() async throws {
        let square = PixelSize(width: 64, height: 64)
        let two = PixelSize(width: 128, height: 128)
        let grid = try derived("grid", HEIFWriter.grid(rows: 2, columns: 2, 128, 128), from: [100, 100, 100, 100], two)
        let overlay = try derived("iovl", HEIFWriter.overlay(64, 64, at: [(0, 0), (9, 9)]), from: [100, 100], square)
        let copy = try derived("iden", Data(), from: [100], square)
        var turned = TestHEIF.plain(try small())
        let irot = turned.add(property: HEIFWriter.box("irot", Data([1])))
        turned.items[0].properties += Array(repeating: irot, count: 120)
        var wide = TestHEIF.plain(try small())
        wide.isWide = true
        for file in [grid, overlay, copy, turned, wide, TestHEIF.plain(try small())] {
            let image = try #require(try await TestHEIF.render(file.data()))
            #expect(image.size == PixelSize(width: 32, height: 32))
        }
    }

    @Test func theMemoryOfAPlainImageIsAsBefore() throws {
        let demand = try TestHEIF.demand(TestHEIF.plain(try small()))
        #expect(demand.largest == PixelSize(width: 64, height: 64) && demand.lie == nil)
        #expect((64 * 64 * 9...64 * 64 * 9 + 4096).contains(demand.bytes))
        #expect(demand.work == 64 * 64)
    }

    /// Tiles of one color are identical and share their bytes, as encoders write them.
    @Test func itemsMayShareTheirBytes() throws {
        var file = try derived(
            "grid",
            HEIFWriter.grid(rows: 16, columns: 16, 1024, 1024),
            from: Array(2..<258),
            PixelSize(width: 1024, height: 1024)
        )
        file.items[0].id = 1000
        for id in 2..<258 { file.add(id, "av01", properties: [1, 2], blob: 0) }
        #expect(TestHEIF.code(file) == nil)
    }

    /// A hidden image, such as a gain map or a thumbnail, is copied but not decoded.
    @Test func hiddenImagesMayBeAnything() throws {
        var file = TestHEIF.plain(try small())
        let large = file.add(property: HEIFWriter.ispe(60_000, 60_000))
        file.add(2, "av01", properties: [1, large], blob: 0)
        file.items[1].isHidden = true
        file.add(3, "tmap", properties: [large], blob: 0)
        file.references = [.init("dimg", 3, [1, 2]), .init("thmb", 2, [1]), .init("auxl", 3, [1])]
        #expect(TestHEIF.code(file) == nil)
    }

    // MARK: - References

    /// Fault: a file of 446 bytes with two items that refer to each other crashed libheif.
    @Test(arguments: [1, 2, 3, 7, 40], ["dimg", "auxl", "thmb", "cdsc"])
    func circlesAreRefused(_ length: Int, _ type: String) throws {
        var file = TestHEIF.plain(try small())
        for id in 1...length {
            if id > 1 { file.add(id, "iden", properties: [2], blob: 0) }
            file.references.append(.init(type, id, [id % length + 1]))
        }
        let error = try #require(TestHEIF.error(file.data()))
        #expect(error.code == .corruptImage && error.message.contains("leads back to itself"))
    }

    /// An alpha channel that is derived from the image to which it belongs.
    @Test func circlesOfSeveralTypesAreRefused() throws {
        var file = try derived("iden", Data(), from: [2], PixelSize(width: 64, height: 64))
        let alpha = file.add(property: HEIFWriter.auxC("urn:mpeg:mpegB:cicp:systems:auxiliary:alpha"))
        file.add(2, "av01", properties: [1, 2], blob: 0)
        file.add(3, "iden", properties: [2, alpha], blob: 0)
        file.references += [.init("auxl", 3, [2]), .init("dimg", 3, [1])]
        #expect(TestHEIF.error(file.data())?.message.contains("is made of itself") == true)
    }

    /// Fault: 10^40 overlays in a 2 kB file kept the codec busy until the watchdog ended it.
    @Test(arguments: [(2, 7, false), (40, 2, false), (4096, 1, false), (4097, 1, true), (40, 3, true), (40, 7, true)])
    func fanOutsAreRefused(_ width: Int, _ depth: Int, _ isRefused: Bool) throws {
        var file = TestHEIF.plain(try small())
        file.items[0].id = 100
        for level in 1...depth {
            let places = Array(repeating: (x: 0, y: 0), count: width)
            file.add(level, "iovl", properties: [2], blob: file.add(blob: HEIFWriter.overlay(64, 64, at: places)))
            let next = level == depth ? 100 : level + 1
            file.references.append(.init("dimg", level, Array(repeating: next, count: width)))
        }
        #expect(TestHEIF.code(file) == (isRefused ? .imageTooLarge : nil))
    }

    @Test func derivedImagesMayBeEightDeep() throws {
        func chain(_ depth: Int) throws -> HEIFWriter {
            var file = TestHEIF.plain(try small())
            file.items[0].id = 5000
            for level in 1..<depth {
                file.add(level, "iden", properties: [2], blob: 0)
                file.references.append(.init("dimg", level, [level == depth - 1 ? 5000 : level + 1]))
            }
            return file
        }
        #expect(TestHEIF.code(try chain(8)) == nil)
        #expect(TestHEIF.code(try chain(9)) == .headerTooLarge)
        #expect(TestHEIF.code(try chain(2000)) == .headerTooLarge)
    }

    // MARK: - Grids and overlays

    @Test func tilesCoverTheirCanvas() throws {
        func grid(_ rows: Int, _ columns: Int, _ width: Int, _ height: Int, tiles: Int) throws -> HEIFWriter {
            try derived(
                "grid",
                HEIFWriter.grid(rows: rows, columns: columns, width, height),
                from: Array(repeating: 100, count: tiles),
                PixelSize(width: width, height: height)
            )
        }
        #expect(TestHEIF.code(try grid(2, 1, 64, 128, tiles: 2)) == nil)
        #expect(TestHEIF.code(try grid(2, 1, 60, 100, tiles: 2)) == nil)
        #expect(TestHEIF.code(try grid(2, 1, 65, 128, tiles: 2)) == .corruptImage, "memory of others would be shown")
        #expect(TestHEIF.code(try grid(2, 1, 64, 129, tiles: 2)) == .corruptImage)
        #expect(TestHEIF.code(try grid(2, 2, 128, 128, tiles: 3)) == .corruptImage)
        var cut = try grid(1, 1, 64, 64, tiles: 1)
        let clap = [64, 1, 64, 1, 1000, 1, 0, 1].reduce(Data()) { $0 + HEIFWriter.big($1, 4) }
        cut.items[0].properties.append(cut.add(property: HEIFWriter.box("clap", clap)))
        #expect(TestHEIF.code(cut) == .corruptImage)
        #expect(TestHEIF.code(try grid(1, 1, 0, 0, tiles: 1)) == .corruptImage)
        #expect(TestHEIF.code(try grid(1, 1, Int(UInt32.max), Int(UInt32.max), tiles: 1)) == .corruptImage)
    }

    @Test func canvasesHaveTheLimitsOfImages() throws {
        func overlay(_ width: Int, _ height: Int) throws -> HEIFWriter {
            try derived(
                "iovl",
                HEIFWriter.overlay(width, height, at: [(0, 0)]),
                from: [100],
                PixelSize(width: width, height: height)
            )
        }
        #expect(TestHEIF.code(try overlay(16_385, 1)) == .sideTooLong)
        #expect(TestHEIF.code(try overlay(10_000, 5001)) == .imageTooLarge)
        #expect(TestHEIF.code(try overlay(Int(UInt32.max), Int(UInt32.max))) == .sideTooLong)
        #expect(TestHEIF.code(try overlay(7000, 7000)) == nil)
    }

    /// libheif 1.15 copies rows from beyond the end of such an image.
    @Test func overlaysBeginWithinTheirCanvas() throws {
        for place in [(x: -1, y: 0), (x: 0, y: -5)] {
            let data = HEIFWriter.overlay(64, 64, at: [place])
            let file = try derived("iovl", data, from: [100], PixelSize(width: 64, height: 64))
            #expect(TestHEIF.code(file) == .unsupportedFormat)
        }
    }

    /// A large tile on a small canvas, and rotations that cost more than the image itself.
    @Test func memoryAndWorkAreInProportion() throws {
        let large = TestHEIF.coded(
            "av01",
            TestStream.av1C,
            TestStream.av1Sequence(7000, 7000) + TestStream.av1Still,
            says: PixelSize(width: 7000, height: 7000)
        )
        #expect(TestHEIF.code(large) == nil)
        var grid = large
        grid.items[0].id = 100
        let ispe = grid.add(property: HEIFWriter.ispe(64, 64))
        let blob = grid.add(blob: HEIFWriter.grid(rows: 1, columns: 1, 64, 64))
        grid.add(1, "grid", properties: [ispe], blob: blob)
        grid.references.append(.init("dimg", 1, [100]))
        #expect(TestHEIF.code(grid) == .tooCostly)
        var turned = large
        let irot = turned.add(property: HEIFWriter.box("irot", Data([1])))
        turned.items[0].properties += Array(repeating: irot, count: 3)
        #expect(TestHEIF.code(turned) == nil)
        turned.items[0].properties += Array(repeating: irot, count: 200)
        #expect(TestHEIF.code(turned) == .imageTooLarge)
    }

    // MARK: - Counts and copies

    /// Fault: libheif took 36 s for 20,000 items, and the job ended as done.
    @Test func itemsExtentsAndBoxesAreCounted() throws {
        func file(items: Int) throws -> HEIFWriter {
            var file = TestHEIF.plain(try small())
            for id in 2..<(items + 1) { file.add(id, "av01", properties: [1, 2], blob: 0) }
            return file
        }
        #expect(TestHEIF.code(try file(items: HEIFBounds.items)) == nil)
        #expect(TestHEIF.code(try file(items: HEIFBounds.items + 1)) == .headerTooLarge)
        var extents = try file(items: 300)
        let single = HEIFWriter.Extent(blob: 0, length: 1)
        for index in 1..<300 { extents.items[index].extents = Array(repeating: single, count: 32) }
        #expect(TestHEIF.code(extents) == .headerTooLarge)
        var boxes = TestHEIF.plain(try small())
        boxes.extras = [Data((0...HEIFBounds.boxes).flatMap { _ in [0, 0, 0, 8, 0x66, 0x72, 0x65, 0x65] as [UInt8] })]
        #expect(TestHEIF.code(boxes) == .headerTooLarge)
        var outside = TestHEIF.plain(try small()).data()
        for _ in 0...HEIFBounds.boxes { outside += [0, 0, 0, 8, 0x66, 0x72, 0x65, 0x65] }
        #expect(TestHEIF.error(outside)?.code == .headerTooLarge)
    }

    /// Fault: a file of 1 MB took 3 GB, as its items shared the same megabyte 32 times each.
    @Test(arguments: ["Exif", "av01"]) func sharedBytesAreCountedAsOftenAsTheyAreCopied(_ type: String) throws {
        func file(items: Int, extents: Int) throws -> HEIFWriter {
            var file = TestHEIF.plain(try small())
            let blob = file.add(blob: Data(count: 1 << 20))
            for id in 2..<(items + 2) {
                let extent = HEIFWriter.Extent(blob: blob, length: 1 << 20)
                file.items.append(
                    .init(id, type, properties: [1, 2], extents: Array(repeating: extent, count: extents))
                )
                if type == "Exif" { file.references.append(.init("cdsc", id, [1])) }
            }
            return file
        }
        #expect(TestHEIF.code(try file(items: 1, extents: 1)) == nil)
        #expect(TestHEIF.code(try file(items: 1, extents: 2)) == .headerTooLarge, "more than the file has")
        #expect(TestHEIF.code(try file(items: 40, extents: 1)) == .headerTooLarge)
        #expect(TestHEIF.code(try file(items: 20, extents: 1)) == (type == "Exif" ? .headerTooLarge : nil))
    }

    /// libheif inflates them without a limit while it reads the header.
    @Test func deflatedItemsAreCountedAsWhatTheyMayGrowTo() throws {
        func file(_ size: Int) throws -> HEIFWriter {
            var file = TestHEIF.plain(try small())
            file.add(2, "mime", blob: file.add(blob: Data(count: size)))
            file.items[1].encoding = "deflate"
            return file
        }
        #expect(TestHEIF.code(try file(1000)) == nil)
        #expect(TestHEIF.code(try file(100_000)) == .headerTooLarge)
    }

    @Test func configurationsArePutInFrontOfEachItem() throws {
        var file = TestHEIF.plain(try small())
        let configuration = file.add(property: HEIFWriter.box("av1C", Data([0x81, 0, 0, 0]) + Data(count: 200_000)))
        for id in 2..<200 { file.add(id, "av01", properties: [configuration], blob: 0) }
        #expect(TestHEIF.code(file) == .headerTooLarge)
    }

    @Test func profilesAreMetadata() throws {
        var file = TestHEIF.plain(try small())
        for _ in 0..<3 { file.add(property: HEIFWriter.box("colr", Data("prof".utf8) + Data(count: 5 << 20))) }
        #expect(TestHEIF.code(file) == nil)
        file.add(property: HEIFWriter.box("colr", Data("prof".utf8) + Data(count: 5 << 20)))
        #expect(TestHEIF.code(file) == .headerTooLarge)
    }
}
