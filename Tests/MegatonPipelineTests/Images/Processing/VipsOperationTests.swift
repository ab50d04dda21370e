internal import CVips
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

@Suite(.timeLimit(.minutes(2))) struct VipsOperationTests {
    private typealias VipsOperation = ImageProcessors.VipsOperation

    /// The required arguments of operations.
    private static let arguments: [String: [String: VipsOperation.Argument]] = [
        "linear": ["a": [1.5], "b": [-20]], "gaussblur": ["sigma": 2], "rank": ["width": 3, "height": 3, "index": 4],
        "hist_local": ["width": 9, "height": 9], "stdif": ["width": 9, "height": 9], "extract_band": ["band": 0],
        "colourspace": ["space": "b-w"], "flip": ["direction": "vertical"], "rot": ["angle": "d90"],
        "wrap": ["x": 3, "y": 5],
    ]

    private func operation(_ name: String, _ arguments: [String: VipsOperation.Argument] = [:]) -> VipsOperation {
        VipsOperation(name: name, arguments: arguments)
    }

    // MARK: - Forbidden operations

    @Test func noAllowedOperationTakesMoreThanAnImageAndNumbers() throws {
        try VipsRuntime.start()
        final class Names { var all: Set<String> = [] }
        let names = Names()
        withExtendedLifetime(names) {
            megaton_vips_each_operation(
                { name, context in
                    guard let context else { return }
                    Unmanaged<Names>.fromOpaque(context).takeUnretainedValue().all.insert(String(cString: name))
                },
                Unmanaged.passUnretained(names).toOpaque()
            )
        }
        // The enumeration has found libvips' operations, and forbidden ones are recognized.
        #expect(names.all.count > 200)
        for name in ["system", "text", "composite2", "jpegload", "pngsave", "profile_load", "icc_transform", "join"] {
            #expect(names.all.contains(name))
            #expect(megaton_vips_forbidden_argument(name) != nil, "\(name) should have a forbidden argument")
        }
        for name in VipsOperation.names {
            #expect(names.all.contains(name), "libvips has no \(name)")
            let argument = megaton_vips_forbidden_argument(name).map { String(cString: $0) }
            #expect(argument == nil, "\(name) has \(argument ?? "")")
        }
        let image = try ProcessorFixture.map(4, 4)
        for name in names.all.subtracting(VipsOperation.names) {
            #expect(operation(name).process(image) == nil, "\(name) was run")
        }
    }

    @Test(arguments: [
        "system", "text", "thumbnail", "jpegload", "pngsave", "csvsave", "rawload", "zoom", "resize", "replicate",
        "Invert", "invert ", "", "VipsInvert", "../invert",
    ])
    func aForbiddenOperationIsRefusedByName(_ name: String) throws {
        let image = try ProcessorFixture.map(4, 4)
        #expect(try ProcessorFixture.failure(operation(name), image) == .processingFailed)
    }

    @Test func argumentsAreCheckedHere() throws {
        let image = try ProcessorFixture.map(9, 9)
        let refused = [
            operation("invert", ["in": "x.png"]), operation("invert", ["out": "x.png"]),
            operation("invert", ["filename": "/etc/passwd"]), operation("gaussblur"),
            operation("gaussblur", ["sigma": 101]), operation("gaussblur", ["sigma": .double(.nan)]),
            operation("gaussblur", ["sigma": "2"]), operation("gaussblur", ["sigma": 2, "precision": "exact"]),
            operation("gaussblur", ["sigma": 2, "precision": 1]), operation("linear", ["a": [1]]),
            operation("linear", ["a": [], "b": [1]]), operation("linear", ["a": [1, 1, 1, 1, 1], "b": [1]]),
            operation("linear", ["a": [.infinity], "b": [1]]),
            operation("rank", ["width": 65, "height": 3, "index": 1]),
            operation("rank", ["width": 3.5, "height": 3, "index": 1]),
            operation("rank", ["width": .int(.max), "height": 3, "index": 1]),
            operation("colourspace", ["space": "cmyk"]), operation("scale", ["log": 1]),
            operation("extract_band", ["band": -1]),
        ]
        for operation in refused {
            #expect(try ProcessorFixture.failure(operation, image) == .processingFailed, "\(operation.identifier)")
        }
    }

    @Test func anOperationThatLibvipsRefusesIsAnError() throws {
        let image = try ProcessorFixture.map(4, 4)
        for operation in [
            operation("extract_band", ["band": 3]), operation("rank", ["width": 9, "height": 9, "index": 1]),
            operation("rot45"), operation("linear", ["a": [1, 2], "b": [1]]),
        ] {
            #expect(try ProcessorFixture.failure(operation, image) == .processingFailed, "\(operation.identifier)")
        }
    }

    // MARK: - Results

    @Test(arguments: 1...4) func everyOperationGivesAnImage(_ bands: Int) throws {
        let image = try ProcessorFixture.scene(33, 33, bands: bands)
        for name in VipsOperation.names.sorted() {
            let result = try ProcessorFixture.run(operation(name, Self.arguments[name] ?? [:]), image)
            #expect(result.size == image.size, "\(name)")
            #expect(result.pixels().count == 33 * 33 * result.bands, "\(name)")
            #expect((1...4).contains(result.bands), "\(name)")
            if name != "extract_band" { #expect(result.hasAlpha == image.hasAlpha, "\(name)") }
        }
    }

    @Test func pixelsAreWhatTheOperationSays() throws {
        let image = try ProcessorFixture.plain(9, 9, [10, 20, 200, 128])
        func pixel(_ name: String, _ arguments: [String: VipsOperation.Argument] = [:]) throws -> [UInt8] {
            try ProcessorFixture.run(operation(name, arguments), image).pixel(4, 4)
        }
        #expect(try pixel("invert") == [245, 235, 55, 128])
        #expect(try pixel("linear", ["a": 2, "b": [1]]) == [21, 41, 255, 128])
        #expect(try pixel("linear", ["a": [1, 2, 3], "b": [0.4, 0.6, -900]]) == [10, 41, 0, 128])
        #expect(try pixel("bandmean") == [76, 128] || pixel("bandmean") == [77, 128])
        #expect(try pixel("extract_band", ["band": 2]) == [200])
        #expect(try pixel("extract_band", ["band": 0, "n": 3]) == [10, 20, 200])
        #expect(try near(pixel("gaussblur", ["sigma": 3]), [10, 20, 200, 128], by: 1))
        #expect(try pixel("colourspace", ["space": "b-w"]).count == 2)
        let turned = try ProcessorFixture.run(operation("rot", ["angle": "d90"]), ProcessorFixture.map(5, 3))
        #expect(turned.size == PixelSize(width: 3, height: 5))
        #expect(turned.pixel(2, 0) == [0, 0, 0])
        let wrapped = try ProcessorFixture.run(operation("wrap", ["x": 2, "y": 1]), ProcessorFixture.map(5, 3))
        #expect(wrapped.pixel(2, 1) == [0, 0, 0])
    }
}
