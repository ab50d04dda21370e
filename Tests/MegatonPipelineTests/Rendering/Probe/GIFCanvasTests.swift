import Foundation
import Testing

@testable import MegatonCore
@testable import MegatonPipeline
@testable import MegatonRendering

/// The part of a GIF's canvas that no frame has covered is transparent.
struct GIFCanvasTests {
    /// A canvas of 8x8 with frames of one color each (GIF89a): `0` is red, `1` green.
    private static func gif(
        _ frames: [(left: UInt8, top: UInt8, width: UInt8, height: UInt8, color: UInt8)],
        delay: UInt8 = 10,
        hasControls: Bool = true
    ) -> Data {
        var gif = Data("GIF89a".utf8) + [8, 0, 8, 0, 0x80, 1, 0] + [255, 0, 0, 0, 255, 0]
        if frames.count > 1 { gif += [0x21, 0xFF, 11] + Array("NETSCAPE2.0".utf8) + [3, 1, 0, 0, 0] }
        for (number, frame) in frames.enumerated() {
            if hasControls { gif += [0x21, 0xF9, 4, 0x04, delay + UInt8(number), 0, 0, 0] }
            gif += [0x2C, frame.left, 0, frame.top, 0, frame.width, 0, frame.height, 0, 0]
            gif += [2] + data(Int(frame.width) * Int(frame.height), frame.color) + [0]
        }
        return gif + [0x3B]
    }

    /// One block of 3-bit codes, with a clear code before the code size would grow.
    private static func data(_ count: Int, _ color: UInt8) -> [UInt8] {
        var codes: [UInt8] = []
        for index in 0..<count { codes += index.isMultiple(of: 2) ? [4, color] : [color] }
        codes.append(5)
        var (bytes, bits, held) = ([UInt8](), 0, 0)
        for code in codes {
            held |= Int(code) << bits
            bits += 3
            while bits >= 8 {
                bytes.append(UInt8(held & 255))
                held >>= 8
                bits -= 8
            }
        }
        if bits > 0 { bytes.append(UInt8(held)) }
        return [UInt8(bytes.count)] + bytes
    }

    private static func render(_ gif: Data, _ format: Rendition.Format, animated: Bool = false) throws -> Data {
        let rendition = Rendition(
            width: 8,
            format: format,
            quality: 100,
            background: Color(red: 255, green: 255, blue: 0),
            lossless: format == .webp,
            animated: animated
        )
        return try DamageTests.render(gif, rendition, .auto).data
    }

    @Test(arguments: [true, false]) func pixelsOutsideTheFirstFrameAreTransparent(_ hasControls: Bool) throws {
        let gif = Self.gif([(2, 2, 4, 4, 1)], hasControls: hasControls)
        for format in [Rendition.Format.png, .webp, .gif] {
            let pixels = try PixelReader(Self.render(gif, format))
            #expect(pixels.bands == 4 && pixels.pixel(0, 0)[3] == 0 && pixels.pixel(7, 7)[3] == 0, "\(format)")
            #expect(pixels.pixel(3, 3) == [0, 255, 0, 255], "\(format)")
        }
        let jpeg = try PixelReader(Self.render(gif, .jpeg))
        #expect(jpeg.bands == 3 && zip(jpeg.pixel(0, 0), [255, 255, 0]).allSatisfy { abs(Int($0) - $1) < 12 })
    }

    @Test func anAnimationKeepsItsFramesAndTimes() throws {
        let gif = Self.gif([(2, 2, 4, 4, 1), (0, 0, 2, 2, 0), (6, 6, 2, 2, 0)])
        for format in [Rendition.Format.gif, .webp] {
            let made = try Self.render(gif, format, animated: true)
            let pixels = try PixelReader(made, options: "n=-1")
            #expect(pixels.height == 24 && pixels.bands == 4, "\(format)")
            #expect(pixels.pixel(0, 0)[3] == 0 && pixels.pixel(3, 3) == [0, 255, 0, 255], "\(format)")
            #expect(pixels.pixel(0, 8) == [255, 0, 0, 255] && pixels.pixel(7, 15)[3] == 0, "\(format)")
            #expect(pixels.pixel(3, 19) == [0, 255, 0, 255] && pixels.pixel(7, 23) == [255, 0, 0, 255], "\(format)")
            #expect(try TestPicture.timing(made).delays == [100, 110, 120], "\(format)")
        }
    }

    @Test func aCanvasThatIsCoveredStaysOpaque() throws {
        for frames in [[(UInt8(0), UInt8(0), UInt8(8), UInt8(8), UInt8(1))], [(0, 0, 8, 8, 1), (2, 2, 2, 2, 0)]] {
            let gif = Self.gif(frames.map { (left: $0.0, top: $0.1, width: $0.2, height: $0.3, color: $0.4) })
            #expect(GIFCanvas.startingEmpty(gif) == nil)
            #expect(try PixelReader(Self.render(gif, .png)).bands == 3)
        }
    }

    /// A GIF that is cut anywhere is parsed to its end and no further.
    @Test func aPartIsWalkedToo() {
        let gif = Self.gif([(2, 2, 4, 4, 1), (0, 0, 2, 2, 0)])
        for length in 0...gif.count { _ = GIFCanvas.startingEmpty(gif.prefix(length)) }
        #expect(GIFCanvas.startingEmpty(gif)?.count ?? 0 > gif.count)
    }
}
