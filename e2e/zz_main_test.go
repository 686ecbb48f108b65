package e2e
import ("testing";"context";"fmt";"os";"github.com/segmentio/kafka-go";"time";"regexp")
func TestKD(t *testing.T){
 r:=kafka.NewReader(kafka.ReaderConfig{Brokers:[]string{"127.0.0.1:39092"},Topic:os.Getenv("TOPIC"),Partition:0})
 ctx,c:=context.WithTimeout(context.Background(),8*time.Second); defer c()
 for { m,err:=r.ReadMessage(ctx); if err!=nil {return}; fmt.Println(m.Offset, regexp.MustCompile(`"(yr|op)":[^,}]*`).FindAllString(string(m.Value),-1)) }
}
